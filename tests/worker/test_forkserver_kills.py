"""The forkserver is killed repeatedly while it starts processes."""

from __future__ import annotations

import random
import signal
import threading
from multiprocessing import forkserver

import psutil
import pytest

from bln_search.core.states import StudyState
from bln_search.execution.executors import process_server
from bln_search.worker import loop
from tests.worker.worker_study import worker_study

pytestmark = pytest.mark.slow


class Killer:
    """Kills each forkserver soon after it has begun, until there were enough."""

    def __init__(self, kills, seed):
        self.left, self.drawn = kills, random.Random(seed)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._kill)

    def _kill(self):
        killed = None
        while self.left and not self.over.wait(0.01):
            pid = forkserver._forkserver._forkserver_pid
            if pid in (None, killed):
                continue
            self.over.wait(self.drawn.uniform(0, 1))
            psutil.Process(pid).send_signal(self.drawn.choice([signal.SIGTERM, signal.SIGKILL]))
            killed, self.left = pid, self.left - 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.over.set()
        self.thread.join()
        forkserver._forkserver._stop()  # the one killed last has ended before the next test starts a process


@pytest.mark.skipif(not process_server.HAS_SERVER, reason="processes are not started by a forkserver here")
@pytest.mark.parametrize(("kills", "studies"), [(2, 1), pytest.param(10, 4, marks=pytest.mark.slow)])
def test_killed_forkserver_fails_no_study(worker, monkeypatch, kills, studies):
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.1)
    ids = [worker.ledger.queue.submit_study(worker_study(f"s{number}"), "ada").study_id for number in range(studies)]
    forkserver._forkserver._stop()  # one of an earlier test is not killed as it starts
    with Killer(kills, seed=7003) as killer:
        worker.run_until_stopped(once=True)
    assert killer.left == 0
    assert [worker.ledger.study_lists.find_study_item(study_id).state for study_id in ids] == [
        StudyState.COMPLETE
    ] * studies
