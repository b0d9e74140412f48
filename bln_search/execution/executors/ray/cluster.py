"""Join a Ray cluster, or start one on this machine."""

from __future__ import annotations

import atexit
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bln_search.core.errors import ClusterError
from bln_search.execution.executors.ray.environment import make_ray_temporary_folder, set_ray_environment_variables
from bln_search.execution.executors.ray.nodes import Cluster, Node

set_ray_environment_variables()

import ray  # noqa: E402
from ray.exceptions import RayError  # noqa: E402
from ray.tune import registry  # noqa: E402

_OBJECT_STORE_BYTES = 200 * 2**20
"""Shared memory of a cluster that this process starts: messages are small; Ray's default is a third of the memory."""

_CONNECT_TIMEOUT = 10.0
"""Seconds within which a cluster must respond."""

_MAX_PORT = 2**16 - 1

_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_get(b'x', None)"


@contextmanager
def use_joined_or_started_cluster(address: str | None, cpus: int, gpus: int) -> Iterator[Cluster]:
    """Join the cluster at `address` and leave it afterwards, or start one on 127.0.0.1 and stop it afterwards.

    Args:
        address: host:port of the cluster to join; None to start one.
        cpus: CPU cores of the started cluster.
        gpus: GPUs of the started cluster.

    Raises:
        ClusterError: It cannot be reached or started.
    """
    if ray.is_initialized():
        raise ClusterError("this process has joined a Ray cluster already: leave it with ray.shutdown() first")
    joined: Cluster | None = None
    try:
        if address is None:
            _start_local_cluster(cpus, gpus)
            joined = Cluster(_list_nodes_if_connected, _find_own_raylet_pid())
        else:
            _join_cluster(address)
            joined = Cluster(_list_nodes_if_connected, address=_parse_address(address))
        yield joined
    finally:
        if joined is None or not joined.is_unresponsive:
            ray.shutdown()
        else:
            _unregister_exit_hooks()


def _start_local_cluster(cpus: int, gpus: int) -> None:
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=gpus,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
            _temp_dir=str(make_ray_temporary_folder()),
        )
    except Exception as error:  # noqa: BLE001 - Ray raises a plain Exception if a node does not start in time
        raise ClusterError(
            f"a Ray cluster cannot be started on this machine ({error}); --executor local needs none"
        ) from None


def _join_cluster(address: str) -> None:
    try:
        socket.create_connection(_parse_address(address), timeout=_CONNECT_TIMEOUT).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster at {address} ({error}): start one with `ray start --head`") from None
    # ray.init retries for more than a minute and may end this process, so a subprocess connects first
    try:
        probe = subprocess.run(  # noqa: S603 - this Python interpreter; the address accepted a connection
            [sys.executable, "-c", _PROBE, address], timeout=_CONNECT_TIMEOUT, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"the process that listens at {address} does not answer like a Ray cluster") from None
    if probe.returncode:
        reason = probe.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no answer"]
        raise ClusterError(
            f"the Ray cluster at {address} refuses ({reason[0][:200]}): one with a token needs RAY_AUTH_TOKEN_PATH"
        )
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds of exceptions
        raise ClusterError(f"the Ray cluster at {address} cannot be joined: {error}") from None


def _unregister_exit_hooks() -> None:
    """Unregister the exit hooks of Ray and Tune: without the cluster they would block until Ray ends this process."""
    for hook in (ray.shutdown, getattr(registry, "_unregister_all", None)):
        atexit.unregister(hook)  # type: ignore[arg-type]


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    # str.isdecimal accepts digits of other scripts, which ray.init does not
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
        raise ClusterError(f"{address!r} is not the address of a Ray cluster: write host:port, usually port 6379")
    return host, int(port)


def _list_nodes_if_connected() -> list[Node] | None:
    """The nodes that are alive; None if the node through which this process joined is not among them.

    Raises ConnectionError if the cluster does not answer.
    """
    own_node = ray.get_runtime_context().get_node_id()
    try:
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
    except RayError as error:
        raise ConnectionError(str(error)) from error
    resources_of = {node["NodeID"]: node["Resources"] for node in nodes if node["Alive"]}
    if own_node not in resources_of:
        return None
    return [Node(resources.get("CPU", 0.0), resources.get("GPU", 0.0)) for resources in resources_of.values()]


def _find_own_raylet_pid() -> int | None:
    node = ray._private.worker._global_node
    raylets: list[Any] = [] if node is None else node.all_processes.get("raylet", [])
    return raylets[0].process.pid if raylets else None
