"""A Ray cluster, joined or started, and what it has."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bln_search.core.errors import ClusterError
from bln_search.search.ray_environment import own_folder, prepare_environment

prepare_environment()

import ray  # noqa: E402

_OBJECT_STORE = 200 * 2**20
"""Bytes of shared memory of a cluster of our own: messages are small, and Ray would take a third of the machine."""

_PATIENCE = 10.0
"""Seconds within which a cluster answers."""

_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_get(b'x', None)"


@dataclass(frozen=True)
class Cluster:
    """cpus, gpus: what it has in all. watched: a process of this machine without which it is gone, if that is known."""

    cpus: float
    gpus: float
    watched: int | None

    def check(self) -> None:
        """Raise ClusterError where the cluster is gone."""
        if self.watched is not None and not _alive(self.watched):
            raise ClusterError(
                "the Ray cluster is gone: its raylet ended; what was finished is kept, run the same command again"
            )

    def check_room(self, cpus: float, gpus: float) -> None:
        """Raise ClusterError where a trial would wait for ever for what the cluster does not have."""
        if gpus > self.gpus:
            raise ClusterError(
                f"a trial asks for {gpus:g} GPUs, the Ray cluster has {self.gpus:g}: lower --gpus-per-trial, take "
                "--device cpu, or join a cluster that has them with --ray-address"
            )
        if cpus > self.cpus:
            raise ClusterError(f"a trial asks for {cpus:g} CPUs, the Ray cluster has {self.cpus:g}: join a larger one")


@contextmanager
def cluster(address: str | None, cpus: int, gpus: int) -> Iterator[Cluster]:
    """The cluster at `address`, left as it was; without an address one of our own, on 127.0.0.1, ended afterwards.

    cpus, gpus: of a cluster of our own. Raises ClusterError where it cannot be reached or started.
    """
    if ray.is_initialized():
        raise ClusterError("this process has joined a Ray cluster already: leave it with ray.shutdown() first")
    try:
        if address is None:
            _start(cpus, gpus)
        else:
            _join(address)
        have = ray.cluster_resources()  # type: ignore[no-untyped-call]
        yield Cluster(have.get("CPU", 0.0), have.get("GPU", 0.0), None if address else _raylet())
    finally:
        ray.shutdown()


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
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(f"{address!r} is not the address of a Ray cluster: write host:port, usually port 6379")
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
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


def _raylet() -> int | None:
    """The raylet of a cluster of our own."""
    node = ray._private.worker._global_node
    found: list[Any] = [] if node is None else node.all_processes.get("raylet", [])
    return found[0].process.pid if found else None


def _alive(pid: int) -> bool:
    """Is the process there, and not merely waiting to be buried?"""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.is_dir():  # no /proc on this system
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
