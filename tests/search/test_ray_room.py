"""What a Ray cluster must have before a trial is handed out."""

from __future__ import annotations

import pytest

from bln_search.core.errors import ClusterError
from bln_search.search.ray_nodes import Cluster, Node


def test_two_nodes_with_a_gpu_each_carry_no_trial_that_wants_two():
    cluster = Cluster(look=lambda: [Node(8.0, 1.0), Node(8.0, 1.0)])
    cluster.check_room(8.0, 1.0)
    with pytest.raises(ClusterError, match="asks for 2 GPUs, no node of the Ray cluster has more than 1"):
        cluster.check_room(1.0, 2.0)
    with pytest.raises(ClusterError, match="asks for 16 CPUs, no node of the Ray cluster has more than 8"):
        cluster.check_room(16.0, 0.0)
