"""Resources that a Ray cluster needs for a trial."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import ClusterError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.ray.executor import RayExecutor, reserved_cpus_per_trial
from bln_search.execution.executors.ray.nodes import Cluster, Node


def test_trial_with_two_gpus_needs_one_node_with_two():
    cluster = Cluster(list_nodes=lambda: [Node(8.0, 1.0), Node(8.0, 1.0)])
    cluster.check_trial_fits_a_node(8.0, 1.0)
    with pytest.raises(ClusterError, match="asks for 2 GPUs, no node of the Ray cluster has more than 1"):
        cluster.check_trial_fits_a_node(1.0, 2.0)
    with pytest.raises(ClusterError, match="asks for 16 CPUs, no node of the Ray cluster has more than 8"):
        cluster.check_trial_fits_a_node(16.0, 0.0)


@pytest.mark.parametrize(("cpus", "side_by_side", "share"), [(2, 1, 1.0), (2, 3, 0.66), (2, 200, 0.01), (2, 900, 0.01)])
def test_every_trial_reserves_some_cpu(cpus, side_by_side, share):
    assert reserved_cpus_per_trial(cpus, side_by_side) == share


def test_cores_and_gpu_must_be_on_one_node():
    cluster = Cluster(list_nodes=lambda: [Node(0.0, 1.0), Node(4.0, 0.0)])
    cluster.check_trial_fits_a_node(4.0, 0.0)
    with pytest.raises(ClusterError, match="asks for 1 CPUs and 1 GPUs, and no node of the Ray cluster has both"):
        cluster.check_trial_fits_a_node(1.0, 1.0)


def test_trial_on_the_cpu_must_not_reserve_a_gpu(tmp_path):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device="cpu")
    with_gpus = Cluster(list_nodes=lambda: [Node(8.0, 1.0)])
    with pytest.raises(ClusterError, match=r"would reserve 0\.5 GPUs and train on the CPU"):
        RayExecutor(environment, gpus_per_trial=0.5)._check_cluster_capacity(with_gpus)
    RayExecutor(environment, gpus_per_trial=0.0)._check_cluster_capacity(with_gpus)
    RayExecutor(environment)._check_cluster_capacity(with_gpus)


def test_several_trials_of_a_program_share_a_whole_gpu(tmp_path):
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path), device="cuda")
    with pytest.raises(ClusterError, match=r"share a whole GPU, not 0\.5 of it"):
        RayExecutor(environment, gpus_per_trial=0.5, trials_per_process=4)
    executor = RayExecutor(environment, 3, trials_per_process=4)
    executor._cluster = Cluster(list_nodes=list)
    assert executor.num_parallel_trials(100) == 12
