"""Many writers at once beside a reader: no lock error, nothing lost, nothing twice.

BLN_SEARCH_REPORTS asks for more of each of the 32 writers: 1000 before a release.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait

import pytest

from bln_search.core.enums import Scope
from bln_search.core.records import EpochRecord
from bln_search.specs import parse_study
from bln_search.storage.engine import make_engine
from bln_search.storage.ledger import Ledger
from bln_search.storage.pagination import PageRequest

PROCESSES, THREADS = 4, 8
WRITERS = PROCESSES * THREADS
REPORTS = int(os.environ.get("BLN_SEARCH_REPORTS", "12"))
STUDY = "{name: s, data: {name: digits}, model: {name: mlp}, arms: [{method: bln}], seeds: SEEDS}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_concurrent_events_are_numbered_without_gaps(ledger):
    ledger.tokens.create_token("ada", Scope.WRITE)
    study_id = ledger.queue.submit_study(parse_study(STUDY.replace("SEEDS", str(list(range(WRITERS))))), "ada").study_id
    ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    tokens = [
        ledger.attempts.claim_trial(trial.id, "host/1/0") for trial in ledger.trials.list_claimable_trials(study_id)
    ]
    url = ledger.database.engine.url.render_as_string(hide_password=False)
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        shares = [pool.submit(write_all, url, tokens[part::PROCESSES], REPORTS) for part in range(PROCESSES)]
        reads = read_until_done(ledger, study_id, shares)
        for share in shares:
            share.result()
    assert reads > 1
    events = ledger.events.list_events(study_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    epochs = [(event.trial_id, event.data["attempt"], event.data["epoch"]) for event in events if event.kind == "epoch"]
    assert len(epochs) == len(set(epochs)) == WRITERS * REPORTS


def write_all(url: str, tokens: list[int], reports: int) -> None:
    """One process of writers: a thread an attempt, all at once."""
    ledger = Ledger(make_engine(url))
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda token: write(ledger, token, reports), tokens))
    finally:
        ledger.close()


def write(ledger: Ledger, token: int, reports: int) -> None:
    for epoch in range(1, reports + 1):
        ledger.attempts.record_epochs(token, [EpochRecord(epoch, 0.1, 0.2, 0.3, 0.4, 0.5)])
        if epoch % 50 == 0:
            ledger.attempts.record_heartbeats([token])


def read_until_done(ledger: Ledger, study_id: int, shares: list[Future[None]]) -> int:
    """What a reader has seen it has seen once, in order, without gaps; returns how often it looked."""
    last_number = reads = 0
    while wait(shares, timeout=0.01).not_done:
        for event in ledger.events.list_events(study_id, last_number, 1000):
            assert event.number == last_number + 1
            last_number = event.number
        ledger.study_lists.list_study_page_plus_one(PageRequest(50, "-created"), owner="ada")
        reads += 1
    return reads
