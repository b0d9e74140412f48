"""A service as people run it: as a process, with its worker beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import httpx
import psutil

from bln_search.client import Client
from tests.end_to_end.commands import command, heed_interrupts


class Service:
    """`bln-search serve` on a free port, in a home of its own. code: the folder of another version's code."""

    def __init__(self, home, *options, code=None, **environment):
        self.code = code
        self.home = home
        self.options = options
        self.environment = {**os.environ, "BLN_SEARCH_HOME": str(home), **environment}
        self.log = home.parent / f"{home.name}.log"
        self.process = None
        self.address = ""

    def start(self):
        """Until it answers."""
        with self.log.open("ab") as log:
            words = ("serve", "--port", 0, *self.options)
            self.process = self._begin(*words, stdout=subprocess.PIPE, stderr=log, preexec_fn=heed_interrupts)
        first = self.process.stdout.readline()
        found = re.search(r"http://[^/ ]+", first)
        assert found, first + self.log.read_text()[-3000:]
        self.address = found[0].strip()
        until(lambda: self.answers("/healthz"), 20)
        return self

    def _begin(self, *words, **how):
        """A process of this version's code, or of the other's."""
        environment = {**self.environment, **({"PYTHONPATH": str(self.code)} if self.code else {})}
        return subprocess.Popen(command(*words), text=True, env=environment, cwd=self.code, **how)

    def answers(self, path):
        try:
            return httpx.get(self.address + path).status_code == 200
        except httpx.TransportError:
            return False

    def ready(self):
        """With a worker."""
        until(lambda: self.answers("/readyz"), 60)
        return self

    @property
    def token(self):
        return (self.home / "token").read_text().strip()

    def client(self, **how):
        return Client(self.address, self.token, **how)

    def descendants(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def kill(self):
        """As a power cut would, the worker and its processes too."""
        every = [psutil.Process(self.process.pid), *self.descendants()]
        for one in every:
            if one.is_running():
                one.kill()
        psutil.wait_procs(every, 10)
        self.process.wait(10)
        self.process.stdout.close()

    def stop(self, number=signal.SIGTERM):
        """As an operator would."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


class OneByOne(Service):
    """With a worker that runs one trial after the other, however many cores there are: the next when one ended."""

    worker_options = ("--workers", 1)

    def __init__(self, home, **how):
        super().__init__(home, "--no-worker", **how)
        self.worker = None

    def start(self):
        """The worker, too."""
        super().start()
        with self.log.open("ab") as log:
            self.worker = self._begin("worker", *self.worker_options, stderr=log)
        return self

    def kill(self):
        """As a power cut would."""
        every = [*psutil.Process(self.worker.pid).children(recursive=True), psutil.Process(self.worker.pid)]
        for one in reversed(every):
            if one.is_running():
                one.kill()
        self.worker.wait(10)
        psutil.wait_procs(every[:-1], 10)
        super().kill()

    def stop(self, number=signal.SIGTERM):
        """As an operator would, worker first."""
        if self.worker is not None and self.worker.poll() is None:
            self.worker.terminate()
            self.worker.wait(60)
        return super().stop(number)


def until(happens, seconds):
    """Wait for something; it must happen in so many seconds, which for what takes long are those of a slow machine."""
    end = time.monotonic() + (seconds if seconds < 30 else 4 * seconds)
    while not happens():
        assert time.monotonic() < end, f"not within {seconds} seconds"
        time.sleep(0.05)
