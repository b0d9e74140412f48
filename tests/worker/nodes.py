"""A Ray cluster of several nodes on this machine, as `ray start` creates them: a head without cores, and workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

import psutil

from bln_search.execution.executors.ray.environment import make_ray_temporary_folder, set_ray_environment_variables

set_ray_environment_variables()  # the token of this process is that of the cluster

import ray  # noqa: E402

_STORE = 80 * 2**20
_PATIENCE = 90.0
_KNOWN = """
import sys
from ray._raylet import GcsClient
print(sum(node.state == 0 for node in GcsClient(address=sys.argv[1]).get_all_node_info().values()))
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Node:
    """`ray start` with all that comes from it."""

    def __init__(self, folder, *options):
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--object-store-memory={_STORE}"]
        environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}  # off, it refuses to be one of several
        with (folder / "nodes.log").open("ab") as log:
            self.process = psutil.Popen([*start, *options], stdout=log, stderr=log, env=environment)
        self.pids = set()

    def processes(self):
        """Every process of the node that is there."""
        with suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def is_busy(self):
        """Does one of its processes that carry trials out compute?"""
        before = {pid: _seconds(pid) for pid in self.pids}
        time.sleep(0.1)
        return any(_seconds(pid) > cpu_seconds + 0.015 for pid, cpu_seconds in before.items())

    def kill(self):
        """SIGKILL to all of it, the raylet first, so that it tells nobody."""
        for process in sorted(self.processes(), key=lambda process: _name(process) != "raylet"):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


class Nodes:
    """A head without cores and `count` nodes with one each. A context manager."""

    def __init__(self, folder, count):
        self.folder, self.count = folder, count
        self.nodes = []
        self.port = free_port()
        self.address = f"{ray.util.get_node_ip_address()}:{self.port}"

    def __enter__(self):
        options = ["--num-cpus=0", "--include-dashboard=false", f"--temp-dir={make_ray_temporary_folder()}"]
        self.head = Node(self.folder, "--head", f"--port={self.port}", *options)
        try:
            self.wait()
            for _ in range(self.count):
                self.join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        for node in [*self.nodes, self.head]:
            node.kill()

    def join(self, *, wait=True):
        """One more node; several that start at once on one machine get in one another's way."""
        temp_folder = make_ray_temporary_folder() / str(len(self.nodes))
        self.nodes.append(Node(self.folder, f"--address={self.address}", "--num-cpus=1", f"--temp-dir={temp_folder}"))
        if wait:
            self.wait()

    def wait(self):
        """Until the cluster knows all of them."""
        deadline = time.monotonic() + _PATIENCE
        while self._known() <= len(self.nodes):
            assert time.monotonic() < deadline, (self.folder / "nodes.log").read_text()
            time.sleep(0.2)

    def number_of(self, pid):
        """Which node has, or had, this process; what was seen once is known for good."""
        if not any(pid in node.pids for node in self.nodes):
            above = {parent.pid for parent in psutil.Process(pid).parents()}
            for node in self.nodes:
                if node.process.pid in above:
                    node.pids.add(pid)
        (node_number,) = [number for number, node in enumerate(self.nodes) if pid in node.pids]
        return node_number

    def _known(self):
        with suppress(OSError):
            socket.create_connection(self.address.split(":"), timeout=1).close()
            command = [sys.executable, "-c", _KNOWN, self.address]
            return int(subprocess.run(command, capture_output=True, text=True, timeout=30).stdout or 0)
        return 0


def _name(process):
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def _seconds(pid):
    with suppress(psutil.NoSuchProcess):
        return sum(psutil.Process(pid).cpu_times()[:2])
    return 0.0
