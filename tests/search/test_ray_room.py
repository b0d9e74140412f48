"""What a Ray cluster must have before a trial is handed out."""

from __future__ import annotations

import pytest

from bln_search.core.errors import ClusterError
from bln_search.search.ray_nodes import Cluster, Node
from bln_search.search.ray_tune import cpu_share


def test_two_nodes_with_a_gpu_each_carry_no_trial_that_wants_two():
    cluster = Cluster(look=lambda: [Node(8.0, 1.0), Node(8.0, 1.0)])
    cluster.check_room(8.0, 1.0)
    with pytest.raises(ClusterError, match="asks for 2 GPUs, no node of the Ray cluster has more than 1"):
        cluster.check_room(1.0, 2.0)
    with pytest.raises(ClusterError, match="asks for 16 CPUs, no node of the Ray cluster has more than 8"):
        cluster.check_room(16.0, 0.0)


@pytest.mark.parametrize(("cpus", "side_by_side", "share"), [(2, 1, 1.0), (2, 3, 0.66), (2, 200, 0.01), (2, 900, 0.01)])
def test_however_many_trials_are_asked_for_each_takes_something(cpus, side_by_side, share):
    assert cpu_share(cpus, side_by_side) == share


@pytest.mark.parametrize(("side_by_side", "share"), [(2, 4.0), (3, 2.0), (1, 4.0), (8, 1.0), (16, 0.5)])
def test_a_trial_of_four_threads_takes_up_to_four_cores(side_by_side, share):
    assert cpu_share(8, side_by_side, most=4) == share
