"""A Ray cluster, joined or started."""

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
from bln_search.execution.executors.ray.environment import own_folder, prepare_environment
from bln_search.execution.executors.ray.nodes import Cluster, Node

prepare_environment()

import ray  # noqa: E402
from ray.exceptions import RayError  # noqa: E402
from ray.tune import registry  # noqa: E402

_OBJECT_STORE = 200 * 2**20
"""Bytes of shared memory of a cluster of our own: messages are small, and Ray would take a third of the machine."""

_PATIENCE = 10.0
"""Seconds within which a cluster answers."""

_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_get(b'x', None)"


@contextmanager
def cluster(address: str | None, cpus: int, gpus: int) -> Iterator[Cluster]:
    """The cluster at `address`, left as it was; without an address one of our own, on 127.0.0.1, ended afterwards.

    cpus, gpus: of a cluster of our own. Raises ClusterError where it cannot be reached or started.
    """
    if ray.is_initialized():
        raise ClusterError("this process has joined a Ray cluster already: leave it with ray.shutdown() first")
    joined: Cluster | None = None
    try:
        if address is None:
            _start(cpus, gpus)
            joined = Cluster(_nodes, _raylet())
        else:
            _join(address)
            joined = Cluster(_nodes, door=_door(address))
        yield joined
    finally:
        if joined is None or not joined.is_silent:
            ray.shutdown()
        else:
            _forgo_farewell()


def _start(cpus: int, gpus: int) -> None:
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            num_gpus=gpus,
            object_store_memory=_OBJECT_STORE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
            _temp_dir=str(own_folder()),
        )
    except Exception as error:  # noqa: BLE001 - Ray says by a plain Exception that a node did not come up in time
        raise ClusterError(f"a Ray cluster cannot be started here ({error}); --executor local does without") from None


def _join(address: str) -> None:
    try:
        socket.create_connection(_door(address), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"no Ray cluster at {address} ({error}): start one with `ray start --head`") from None
    # Ray itself tries for more than a minute, and may end this process: another one asks first
    try:
        asked = subprocess.run(  # noqa: S603 - this very Python, with an address that a connection was made to
            [sys.executable, "-c", _PROBE, address], timeout=_PATIENCE, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"what listens at {address} does not answer like a Ray cluster") from None
    if asked.returncode:
        reason = asked.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no answer"]
        raise ClusterError(
            f"the Ray cluster at {address} refuses ({reason[0][:200]}): one with a token needs RAY_AUTH_TOKEN_PATH"
        )
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # noqa: BLE001 - whatever Ray says
        raise ClusterError(f"the Ray cluster at {address} cannot be joined: {error}") from None


def _forgo_farewell() -> None:
    """What Ray and Tune say to a cluster at the end would wait for one that is gone, until Ray ends this process."""
    for said in (ray.shutdown, getattr(registry, "_unregister_all", None)):
        atexit.unregister(said)  # type: ignore[arg-type]


def _door(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(f"{address!r} is not the address of a Ray cluster: write host:port, usually port 6379")
    return host, int(port)


def _nodes() -> list[Node] | None:
    """The nodes that live; None where the one that this process joined through is none of them.

    Raises ConnectionError where the cluster does not answer.
    """
    own = ray.get_runtime_context().get_node_id()
    try:
        every = ray.nodes()  # type: ignore[no-untyped-call]
    except RayError as error:
        raise ConnectionError(str(error)) from error
    living = {one["NodeID"]: one["Resources"] for one in every if one["Alive"]}
    if own not in living:
        return None
    return [Node(have.get("CPU", 0.0), have.get("GPU", 0.0)) for have in living.values()]


def _raylet() -> int | None:
    """The raylet of a cluster of our own."""
    node = ray._private.worker._global_node
    found: list[Any] = [] if node is None else node.all_processes.get("raylet", [])
    return found[0].process.pid if found else None
