"""The nodes of a Ray cluster: their free resources, and whether the cluster still responds."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from bln_search.core.errors import ClusterError, ClusterUnresponsiveError

_CHECK_INTERVAL = 2.0
"""Least number of seconds between two checks of a cluster."""

_PROBE_INTERVAL = 0.5
"""Seconds after a response within which a cluster counts as responding."""

_RESPONSE_TIMEOUT = 10.0
"""Seconds without a response after which a cluster counts as gone; Ray ends the driver's process after a minute."""

_REMEDY = "finished results are stored, run the same command again"


@dataclass(frozen=True)
class Node:
    """CPU cores and GPUs of a node."""

    cpus: float
    gpus: float


@dataclass
class Cluster:
    """A cluster that this process has joined or started.

    Attributes:
        list_nodes: Queries the present nodes; None if the node through which this process joined is gone.
        raylet_pid: Process of this machine without which the cluster is gone; None if it is unknown.
        address: Host and port of a cluster that was joined.
        nodes: The nodes of the last query.
        checked_at: Time of the last check (monotonic clock, seconds).
        unresponsive_since: Time of the first connection attempt without a response; None after a response.
        responded_at: Time of the last response to a connection attempt.
    """

    list_nodes: Callable[[], list[Node] | None]
    raylet_pid: int | None = None
    address: tuple[str, int] | None = None
    nodes: list[Node] = field(default_factory=list)
    checked_at: float = 0.0
    unresponsive_since: float | None = None
    responded_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.nodes = self.list_nodes() or []
        self.checked_at = time.monotonic()

    @property
    def cpus(self) -> float:
        """CPU cores of all nodes."""
        return sum(node.cpus for node in self.nodes)

    @property
    def gpus(self) -> float:
        """GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    @property
    def is_unresponsive(self) -> bool:
        """Did the last connection attempt fail? A call of Ray would then block until Ray ends this process."""
        return self.unresponsive_since is not None

    def max_parallel_trials(self, cpus: float, gpus: float) -> int:
        """The number of trials with these resources that fit side by side; a trial runs on one node."""
        return sum(_num_trials_that_fit_node(node, cpus, gpus) for node in self.nodes)

    def check_cluster_is_alive(self) -> None:
        """Query the nodes at most every _CHECK_INTERVAL seconds. Raise ClusterError if the cluster is gone."""
        if self.raylet_pid is not None and not _is_process_running(self.raylet_pid):
            raise ClusterError(f"the Ray cluster is gone: its raylet ended; {_REMEDY}")
        if time.monotonic() - self.checked_at < _CHECK_INTERVAL:
            return
        self.checked_at = time.monotonic()
        if self.address is not None and self.is_responding(within=0):
            self._update_nodes()

    def is_responding(self, within: float = _PROBE_INTERVAL) -> bool:
        """Does it respond? Tune asks at each step of its controller, so a response counts for a while.

        Args:
            within: Seconds for which the last response counts.

        Raises:
            ClusterUnresponsiveError: It has not responded for _RESPONSE_TIMEOUT seconds.
        """
        if self.address is None or time.monotonic() - self.responded_at < within:
            return True
        if _accepts_connections(self.address):
            self.unresponsive_since, self.responded_at = None, time.monotonic()
            return True
        if self.unresponsive_since is None:
            self.unresponsive_since = time.monotonic()
        if time.monotonic() - self.unresponsive_since > _RESPONSE_TIMEOUT:
            raise ClusterUnresponsiveError(f"the Ray cluster at {self.address[0]}:{self.address[1]} is gone; {_REMEDY}")
        return False

    def _update_nodes(self) -> None:
        with suppress(ConnectionError):  # the next check queries again; until then the last result applies
            nodes = self.list_nodes()
            if nodes is None:
                raise ClusterError(
                    f"the Ray cluster is gone or was restarted: this process's node does not belong to it; {_REMEDY}"
                )
            self.nodes = nodes

    def check_trial_fits_a_node(self, cpus: float, gpus: float) -> None:
        """Raise ClusterError if no node can ever run a trial with these resources."""
        largest = max((node.gpus for node in self.nodes), default=0.0)
        if gpus > largest:
            raise ClusterError(
                f"a trial asks for {gpus:g} GPUs, no node of the Ray cluster has more than {largest:g}: lower "
                "--gpus-per-trial, take --device cpu, or join a cluster that has them with --ray-address"
            )
        if not self.cpus:
            raise ClusterError("no node of the Ray cluster has cores for trials yet: try again once one has joined")
        largest = max(node.cpus for node in self.nodes)
        if cpus > largest:
            raise ClusterError(f"a trial asks for {cpus:g} CPUs, no node of the Ray cluster has more than {largest:g}")
        if not self.max_parallel_trials(cpus, gpus):
            raise ClusterError(
                f"a trial asks for {cpus:g} CPUs and {gpus:g} GPUs, and no node of the Ray cluster has both: start one "
                "with cores and a GPU"
            )


def _num_trials_that_fit_node(node: Node, cpus: float, gpus: float) -> int:
    resources = [(node.cpus, cpus), (node.gpus, gpus)]
    return min((int(available / required + 1e-6) for available, required in resources if required), default=0)


def _accepts_connections(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=_CHECK_INTERVAL).close()
    except OSError:
        return False
    return True


def _is_process_running(pid: int) -> bool:
    """Does the process exist, other than as a zombie?"""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
