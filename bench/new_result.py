"""Time until the leaderboard of a large study contains a new result, against computing it anew.

SQLite; a study with 800,000 evaluations of 25,000 trials. The service holds its leaderboard; then trials end one after
another, and each time the leaderboard is read as a page reads it. The same process then computes the leaderboard
without the cache.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from bench.support.growth_ledger import RUNNER, SEEDS, create_study, database, store_evaluations
from bench.support.null_executor import make_evaluations
from bench.support.reporting import finish, make_parser, spread
from bench.support.synthetic_studies import CONFIGURATIONS
from bln_search.core.records import CheckpointRecord, Evaluation
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from service.caching.leaderboard_cache import CachedLeaderboard, LeaderboardCache


def finish_trial(ledger: Ledger, trial: int, evaluations: tuple[Evaluation, ...]) -> None:
    """Store a checkpoint and evaluations of a trial, as its driver does."""
    token = ledger.attempts.claim_trial(trial, RUNNER)
    assert token is not None
    ledger.attempts.record_checkpoint(token, CheckpointRecord("x.safetensors", "0" * 64, 1, "FFFF", 0.5, {}))
    ledger.attempts.finish_trial(token, evaluations)


def measure_new_results(evaluations: int, new_results: int) -> dict[str, Any]:
    """Return seconds to read a leaderboard: the first time, after each new result, and anew."""
    points = max(1, round(evaluations / (SEEDS * 2 * len(CONFIGURATIONS))))
    with database("sqlite") as url, closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = create_study(ledger, points)
        trials = [trial.id for trial in ledger.trials.list_claimable_trials(study_id)]
        open_trials, finished = trials[:new_results], trials[new_results:]
        store_evaluations(ledger, finished, random.Random(0))
        cache = LeaderboardCache(ledger)
        first, _ = _time_read(lambda: cache.get_or_compute(study_id, len(finished)))
        updates = []
        for number, trial in enumerate(open_trials, start=1):
            finish_trial(ledger, trial, make_evaluations(0, number))
            seconds, board = _time_read(lambda: cache.get_or_compute(study_id, len(finished) + number))  # noqa: B023 - called at once
            updates.append(seconds)
        anew, expected = _time_read(lambda: LeaderboardCache(ledger).get_or_compute(study_id, len(trials)))
        assert board.leaderboard == expected.leaderboard
    return {
        "evaluations": len(trials) * 2 * len(CONFIGURATIONS),
        "ranked_rows": len(expected.leaderboard.rows),
        "first_seconds": first,
        "new_result_seconds": spread(updates),
        "new_results": new_results,
        "anew_seconds": anew,
    }


def _time_read(read: Callable[[], CachedLeaderboard]) -> tuple[float, CachedLeaderboard]:
    start = time.perf_counter()
    board = read()
    return time.perf_counter() - start, board


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    result = measure_new_results(100_000 if options.quick else 800_000, 5 if options.quick else 9)
    finish("new_result", result, save=options.save)


if __name__ == "__main__":
    main()
