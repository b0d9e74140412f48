"""The web interface in Chromium: a large study of 12,600 trials and 100,640 evaluations, and 1,000 other studies.

First paint: the browser's own first-contentful-paint, for the page of the study and for the list of studies. The
leaderboard is usable when its document is loaded, laid out and answers a script. It is measured against a newly started
service, which computes the table for this request, and once more with the cached table. The list of studies is measured
as the leaderboard, against the same new service. Live: for half a minute trials
report epochs and end, twenty events per second; the processor seconds of all processes of the browser over that time,
as a share of one core. Service, browser and the reporting process share this machine.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, sync_playwright

from bench.support.browser import FLAGS, find_chromium
from bench.support.heartbeats import sending_heartbeats
from bench.support.ledgers import RUNNER, list_open_trials, mark_finished, start_study, store_evaluations
from bench.support.processes import serve
from bench.support.reporting import finish, make_parser, spread
from bln_search.core.enums import Scope
from bln_search.core.records import EpochRecord
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.storage.engine import write_session
from bln_search.storage.events import NewEvent, append_events
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

SEEDS, DECAYS = 5, 40
EPOCHS = 5
REPORTING_TRIALS = 20
"""Trials that report while the page is open."""

CONFIGURATIONS = ("TT--", "TF--", "FT--", "FF--")
STUDY = """
name: large
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bn}}]
seeds: [0, 1, 2, 3, 4]
training: {{epochs: 5, batch_size: 25}}
space:
  training.learning_rate: {{kind: choice, values: {rates}}}
  training.weight_decay: {{kind: choice, values: {decays}}}
"""
SMALL_STUDY = """
name: small{number}
title: A study of the list, number {number}
data: {{name: digits}}
model: {{name: mlp}}
arms: [{{method: bn}}]
seeds: [0]
"""
USABLE = "() => document.readyState === 'complete' && document.querySelectorAll('table.list tbody tr').length"
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def create_study(ledger: Ledger, trials: int) -> int:
    """Create a running study with all but a few trials finished; return its id."""
    rates = [round(0.001 * 1.05**index, 6) for index in range(trials // SEEDS // DECAYS)]
    decays = [round(1e-3 * 1.1**index, 8) for index in range(DECAYS)]
    study_id = start_study(ledger, STUDY.format(rates=rates, decays=decays))
    finished, rng = list_open_trials(ledger, study_id)[:-REPORTING_TRIALS], random.Random(0)
    store_evaluations(ledger, finished, rng, CONFIGURATIONS)
    mark_finished(ledger, study_id, finished)
    with write_session(ledger.database.engine) as session:
        for trial_id in finished:
            epochs = [{"attempt": trial_id, **_epoch(epoch, rng)} for epoch in range(1, EPOCHS + 1)]
            append_events(session, study_id, ledger.now(), [NewEvent("epoch", epoch, trial_id) for epoch in epochs])
    return study_id


def create_list(ledger: Ledger, studies: int) -> None:
    """Create waiting, paused and cancelled studies, as many of each."""
    changes: tuple[Callable[[int], None] | None, ...] = (None, ledger.queue.pause, ledger.queue.cancel)
    for number in range(studies):
        study_id = ledger.queue.submit_study(parse_study(SMALL_STUDY.format(number=number)), "bench").study_id
        change = changes[number % len(changes)]
        if change is not None:
            change(study_id)


def _epoch(epoch: int, rng: random.Random) -> dict[str, float]:
    losses = {"training_loss": 1 / epoch, "validation_loss": 1.1 / epoch + rng.random() / 20}
    return {"epoch": epoch, **losses, "training_accuracy": 0.5, "validation_accuracy": 0.5, "seconds": 0.1}


class EventReporter(threading.Thread):
    """Report twenty epochs a second; each trial diverges after its share of the time."""

    def __init__(self, ledger: Ledger, study_id: int, seconds: float) -> None:
        super().__init__()
        self.ledger, self.study_id, self.seconds = ledger, study_id, seconds

    def run(self) -> None:
        """Report until the end of the measurement."""
        end = time.monotonic() + self.seconds
        trials = iter(self.ledger.trials.list_claimable_trials(self.study_id))
        token, epoch, switch = 0, 0, 0.0
        while time.monotonic() < end:
            if time.monotonic() >= switch:
                if token:
                    self.ledger.attempts.record_divergence(token, "ended by the benchmark")
                token, epoch = self.ledger.attempts.claim_trial(next(trials).id, RUNNER), 0
                switch = time.monotonic() + self.seconds / (REPORTING_TRIALS - 2)
            epoch += 1
            self.ledger.attempts.record_epochs(token, [EpochRecord(epoch, 0.5, 0.5, 0.6, 0.5, 0.05)])
            time.sleep(0.05)


def measure_first_paints(
    browser: Browser, address: str, secret: str, paths: list[str], runs: int
) -> dict[str, list[float]]:
    """Return the first contentful paint in milliseconds by path, with a new browser each time."""
    milliseconds: dict[str, list[float]] = {path: [] for path in paths}
    for _ in range(runs):
        for path in paths:
            page = _open_page(browser, address, secret)
            page.goto(address + path)
            while (paint_time := page.evaluate(PAINT)) is None:
                page.wait_for_timeout(20)
            milliseconds[path].append(float(paint_time))
            page.context.close()
    return milliseconds


def measure_usable(browser: Browser, address: str, secret: str, path: str) -> float:
    """Return the milliseconds from the request of a page with a table until it is laid out and interactive."""
    page = _open_page(browser, address, secret)
    start = time.perf_counter()
    page.goto(address + path)
    assert page.evaluate(USABLE)
    seconds = time.perf_counter() - start
    page.context.close()
    return 1000 * seconds


def _open_page(browser: Browser, address: str, secret: str) -> Any:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    response = context.request.post(f"{address}/api/v1/session", data={"token": secret})
    assert response.ok
    return context.new_page()


def measure_live_page(
    browser: Browser, address: str, secret: str, study_id: int, reporter: EventReporter
) -> tuple[float, int]:
    """Return processor seconds per second of the browser, and the number of events it received."""
    page = _open_page(browser, address, secret)
    page.goto(f"{address}/studies/{study_id}")
    page.wait_for_timeout(4000)
    last_event = int(page.evaluate("() => document.querySelector('#log li:last-child').value"))
    reporter.start()
    processor_before, start = _processor_seconds(), time.monotonic()
    page.wait_for_timeout(reporter.seconds * 1000)
    share = (_processor_seconds() - processor_before) / (time.monotonic() - start)
    reporter.join()
    page.wait_for_timeout(2000)
    events = int(page.evaluate("() => document.querySelector('#log li:last-child').value")) - last_event
    page.context.close()
    return share, events


def _processor_seconds() -> float:
    """Return the processor seconds of all processes of the browser."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            name, times = process.name(), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        if "chrom" in name or "headless" in name:
            total += times.user + times.system
    return total


def run(trials: int, studies: int, runs: int, seconds: float) -> dict[str, Any]:
    """Return all measurements."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        home = Path(folder)
        url = Settings(home=home).database_url
        ledger = open_and_upgrade_ledger(url)
        study_id = create_study(ledger, trials)
        create_list(ledger, studies)
        secret, _ = ledger.tokens.create_token("bench", Scope.READ)
        board = f"/studies/{study_id}/leaderboard"
        browser = play.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        cold, warm, listed = [], [], []
        for _ in range(runs):
            with sending_heartbeats(ledger, RUNNER), serve(home, url) as (host, port):
                cold.append(measure_usable(browser, f"http://{host}:{port}", secret, board))
                warm.append(measure_usable(browser, f"http://{host}:{port}", secret, board))
                listed.append(measure_usable(browser, f"http://{host}:{port}", secret, "/studies?size=200"))
        with sending_heartbeats(ledger, RUNNER), serve(home, url) as (host, port):
            address = f"http://{host}:{port}"
            paint_times = measure_first_paints(browser, address, secret, ["/studies", f"/studies/{study_id}"], runs)
            share, events = measure_live_page(
                browser, address, secret, study_id, EventReporter(ledger, study_id, seconds)
            )
        browser.close()
        ledger.close()
    all_paints = [milliseconds for values in paint_times.values() for milliseconds in values]
    return {
        "first_paint_ms": max(all_paints),
        "first_paint_spread": spread(all_paints),
        "leaderboard_ms": spread(cold)["median"],
        "leaderboard_spread": spread(cold),
        "leaderboard_again_spread": spread(warm),
        "list_ms": spread(listed)["median"],
        "list_spread": spread(listed),
        "live_core_share": share,
        "live_events": events,
        "live_seconds": seconds,
        "trials": trials,
        "evaluations": (trials - REPORTING_TRIALS) * 8,
        "studies": studies + 1,
        "runs": runs,
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    result = run(2_000, 100, 2, 10.0) if options.quick else run(12_600, 1_000, 5, 30.0)
    print(f"{result['trials']:,} trials, {result['evaluations']:,} evaluations")
    print(f"first paint at most {result['first_paint_ms']:.0f} ms")
    for name, page in (("leaderboard", "leaderboard"), ("list", f"list of {result['studies']:,} studies")):
        low, high = (result[f"{name}_spread"][part] for part in ("min", "max"))
        print(f"{page} usable after {result[f'{name}_ms']:.0f} ms [{low:.0f}, {high:.0f}], not cached")
    print(f"live page: {result['live_core_share']:.0%} of a core, {result['live_events']} events")
    finish("pages", result, save=options.save)


if __name__ == "__main__":
    main()
