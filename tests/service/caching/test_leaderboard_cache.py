"""A cached leaderboard that follows the results of a study is that of all its results."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Split
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.caching.leaderboard_cache import LeaderboardCache
from tests.support.service_world import finish_trial, start_study


@pytest.fixture
def ledger(tmp_path):
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    yield ledger
    ledger.close()


@pytest.mark.parametrize("split", [None, Split.TEST])
def test_leaderboard_after_each_result_equals_a_new_one(ledger, split, monkeypatch):
    study_id, trials = start_study(ledger, "followed", "ada", seeds=range(3), arms="[{method: bln}, {method: bn}]")
    cache = LeaderboardCache(ledger)
    cache.get_or_compute(study_id, 0, split)
    full_reads = []
    read_all = ledger.results.read_results_with_position
    monkeypatch.setattr(
        ledger.results,
        "read_results_with_position",
        lambda *of_study: full_reads.append(of_study) or read_all(*of_study),
    )
    for count, trial in enumerate(trials, start=1):
        finish_trial(ledger, trial)
        followed = cache.get_or_compute(study_id, count, split)
        assert full_reads == []
        new = LeaderboardCache(ledger).get_or_compute(study_id, count, split)
        full_reads.clear()
        assert followed.leaderboard == new.leaderboard
        assert followed.losses == new.losses
        assert (followed.results, followed.position) == (count, new.position)
