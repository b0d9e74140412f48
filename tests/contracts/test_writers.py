"""Many writers at once beside a reader: no lock error, nothing lost, nothing twice.

BLN_SEARCH_REPORTS asks for more of each of the 32 writers: 1000 before a release.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bln_search.core.records import EpochRecord
from bln_search.core.words import Scope
from bln_search.specs import parse_study
from bln_search.storage import queries
from bln_search.storage.access import create_token
from bln_search.storage.browse import Page, list_events, list_studies
from bln_search.storage.queue import Queue

WRITERS = 32
REPORTS = int(os.environ.get("BLN_SEARCH_REPORTS", "12"))
STUDY = "{name: s, data: {name: digits}, model: {name: mlp}, arms: [{method: bln}], seeds: SEEDS}"


@pytest.mark.timeout(3600)
def test_every_report_is_there_once_and_numbers_have_no_gaps(ledger):
    create_token(ledger.engine, "ada", Scope.WRITE)
    study_id = Queue(ledger).submit(parse_study(STUDY.replace("SEEDS", str(list(range(WRITERS))))), "ada").study_id
    ledger.start_study(study_id, lambda _: True, "host/1/0")
    tokens = [ledger.claim(trial.id, "host/1/0") for trial in ledger.open_trials(study_id)]
    over = threading.Event()

    def write(token):
        for epoch in range(1, REPORTS + 1):
            ledger.record_epochs(token, [EpochRecord(epoch, 0.1, 0.2, 0.3, 0.4, 0.5)])
            if epoch % 50 == 0:
                ledger.heartbeat([token], "host/1/0")

    def read():
        """What a reader has seen it has seen once, in order, without gaps."""
        seen = 0
        looks = 0
        while not over.is_set():
            for event in list_events(ledger.engine, study_id, seen, 1000):
                assert event.number == seen + 1
                seen = event.number
            list_studies(ledger.engine, Page(50, "-created"), owner="ada")
            looks += 1
        return looks

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        reader = pool.submit(read)
        for done in [pool.submit(write, token) for token in tokens]:
            done.result()
        over.set()
        assert reader.result() > 0
    events = queries.events(ledger.engine, study_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    epochs = [(event.data["attempt"], event.data["epoch"]) for event in events if event.kind == "epoch"]
    assert len(epochs) == len(set(epochs)) == WRITERS * REPORTS
