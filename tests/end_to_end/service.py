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
from tests.end_to_end.commands import _heed_interrupts, command


class Service:
    """`bln-search serve` on a free port, in a home of its own."""

    def __init__(self, home, *options, **environment):
        self.home = home
        self.options = options
        self.environment = {**os.environ, "BLN_SEARCH_HOME": str(home), **environment}
        self.log = home.parent / f"{home.name}.log"
        self.process = None
        self.address = ""

    def start(self):
        """Until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command("serve", "--port", 0, *self.options),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
                preexec_fn=_heed_interrupts,
            )
        first = self.process.stdout.readline()
        found = re.search(r"http://[^/ ]+", first)
        assert found, first + self.log.read_text()[-3000:]
        self.address = found[0].strip()
        until(lambda: self.answers("/healthz"), 20)
        return self

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


def until(happens, seconds):
    """Wait for something; it must happen in so many seconds."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, f"not within {seconds} seconds"
        time.sleep(0.05)
