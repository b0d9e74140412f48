"""The nodes of a Ray cluster: what they carry now, and whether the cluster is still there."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bln_search.core.errors import ClusterError, ClusterSilentError

_LOOK = 2.0
"""Seconds between two looks at a cluster at least."""

_SILENT = 10.0
"""Seconds without an answer after which a cluster is gone; Ray ends the driver's process after a minute."""

_KEPT = "what was finished is kept, run the same command again"


@dataclass(frozen=True)
class Node:
    """Cores and GPUs of a node that is there."""

    cpus: float
    gpus: float


@dataclass
class Cluster:
    """A cluster this process has joined or started.

    look: its nodes, asked anew; None where the one this process joined through is gone. watched: a process of this
    machine without which it is gone, if that is known. door: where it answers, of one that was joined.
    """

    look: Callable[[], list[Node] | None]
    watched: int | None = None
    door: tuple[str, int] | None = None
    nodes: list[Node] = field(default_factory=list)
    looked: float = 0.0
    silent_since: float | None = None

    def __post_init__(self) -> None:
        self.nodes = self.look() or []
        self.looked = time.monotonic()

    @property
    def cpus(self) -> float:
        """Cores in all."""
        return sum(node.cpus for node in self.nodes)

    @property
    def gpus(self) -> float:
        """GPUs in all."""
        return sum(node.gpus for node in self.nodes)

    @property
    def is_silent(self) -> bool:
        """Did it not answer the last time? Whoever asks Ray for something then waits until Ray ends this process."""
        return self.silent_since is not None

    def room(self, cpus: float, gpus: float) -> int:
        """How many trials that ask for so much it carries side by side; a trial has all it asks for on one node."""
        return sum(_carried(node, cpus, gpus) for node in self.nodes)

    def check(self) -> None:
        """See now and then which nodes are there. Raise ClusterError where the cluster is gone."""
        if self.watched is not None and not _alive(self.watched):
            raise ClusterError(f"the Ray cluster is gone: its raylet ended; {_KEPT}")
        if time.monotonic() - self.looked < _LOOK:
            return
        self.looked = time.monotonic()
        if self.door is not None and self.answers():
            self._count()

    def answers(self) -> bool:
        """Does it answer right now? Raises ClusterSilentError where it was so for long."""
        if self.door is None or _is_open(self.door):
            self.silent_since = None
            return True
        if self.silent_since is None:
            self.silent_since = time.monotonic()
        if time.monotonic() - self.silent_since > _SILENT:
            raise ClusterSilentError(f"the Ray cluster at {self.door[0]}:{self.door[1]} is gone; {_KEPT}")
        return False

    def _count(self) -> None:
        with suppress(ConnectionError):  # it is asked again soon; what was known holds until then
            found = self.look()
            if found is None:
                raise ClusterError(
                    f"the Ray cluster is gone or was started anew: this process's node is none of its own; {_KEPT}"
                )
            self.nodes = found

    def check_room(self, cpus: float, gpus: float) -> None:
        """Raise ClusterError where a trial would wait for ever for what the cluster does not have."""
        most = max((node.gpus for node in self.nodes), default=0.0)  # a trial has all it asks for on one node
        if gpus > most:
            raise ClusterError(
                f"a trial asks for {gpus:g} GPUs, no node of the Ray cluster has more than {most:g}: lower "
                "--gpus-per-trial, take --device cpu, or join a cluster that has them with --ray-address"
            )
        if not self.cpus:
            raise ClusterError("no node of the Ray cluster has cores for trials yet: try again once one has joined")
        most = max(node.cpus for node in self.nodes)
        if cpus > most:
            raise ClusterError(f"a trial asks for {cpus:g} CPUs, no node of the Ray cluster has more than {most:g}")
        if not self.room(cpus, gpus):
            raise ClusterError(
                f"a trial asks for {cpus:g} CPUs and {gpus:g} GPUs, and no node of the Ray cluster has both: start one "
                "with cores and a GPU"
            )


def _carried(node: Node, cpus: float, gpus: float) -> int:
    parts = [(node.cpus, cpus), (node.gpus, gpus)]
    return min((int(has / asked + 1e-6) for has, asked in parts if asked), default=0)


def _is_open(door: tuple[str, int]) -> bool:
    try:
        socket.create_connection(door, timeout=_LOOK).close()
    except OSError:
        return False
    return True


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
