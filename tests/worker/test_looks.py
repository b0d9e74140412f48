"""Each analysis of more seeds of the same trials spends a smaller part of the error rate of 5 %."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.watchers import RecordingWatcher
from tests.worker.objective_executor import Killed
from tests.worker.outcome_executor import OutcomeExecutor, one_row_study

LOSSES = {"a": 0.5, "b": 0.8, "c": 0.9}


def run(ledger, seeds, *, name="looks", owner=None, losses=LOSSES, **options):
    study = one_row_study(*losses, seeds=seeds, name=name)
    if owner is None:
        study_id = ledger.studies.store_study_once(study)
    else:
        study_id = ledger.queue.submit_study(study, owner).study_id
    run_study(ledger, study_id, OutcomeExecutor(losses, **options), RecordingWatcher())
    return study_id


def analyse(ledger, study_id):
    analysis = compute_and_store_analysis(ledger, study_id, None)
    return analysis.looks, round(analysis.comparison.level / ALPHA, 6)


def test_study_with_added_seeds_knows_the_looks_of_the_studies_that_it_continues(ledger):
    first = run(ledger, [0, 1, 2])
    assert analyse(ledger, first) == ((3,), 0.8)
    second = run(ledger, [0, 1, 2, 3, 4], name="renamed")
    assert analyse(ledger, second) == ((3, 5), 0.1)
    ledger.studies.delete_and_list_unneeded_files(first)
    assert analyse(ledger, second) == ((3, 5), 0.1)
    third = run(ledger, [*range(8)])
    assert analyse(ledger, third) == ((3, 5, 8), 0.05)
    sentences = " ".join(analysis_sentences(ledger.analyses.find_current_analysis(third).analysis))
    assert "family-wise error rate 0.25 % (look 3, after 3, 5 and 8 seeds)" in sentences


def test_repeated_analysis_is_the_same_look(ledger):
    study_id = run(ledger, [0, 1, 2])
    assert {analyse(ledger, study_id) for _ in range(3)} == {((3,), 0.8)}
    assert "look" not in " ".join(analysis_sentences(ledger.analyses.find_current_analysis(study_id).analysis))


def test_failed_analysis_keeps_the_looks(ledger, monkeypatch):
    run_and_analyse = [analyse(ledger, run(ledger, seeds)) for seeds in ([0, 1, 2], [*range(5)])]
    assert run_and_analyse[-1] == ((3, 5), 0.1)
    study_id = ledger.studies.get_by_name_or_id("looks").id
    with monkeypatch.context() as context:
        context.setattr("bln_search.worker.analysis.study_analysis.recommend_row", lambda *_, **__: 1 / 0)
        failed = compute_and_store_analysis(ledger, study_id, None)
    assert (failed.comparison, failed.looks) == (None, (3, 5))


def test_other_seeds_and_other_owners_are_no_earlier_look(ledger):
    for account in ("ada", "ben"):
        ledger.tokens.create_token(account, Scope.WRITE)
    assert analyse(ledger, run(ledger, [0, 1, 2], owner="ada")) == ((3,), 0.8)
    assert analyse(ledger, run(ledger, [5, 6, 7, 8], owner="ada", name="other")) == ((4,), 0.8)
    assert analyse(ledger, run(ledger, [*range(5)], owner="ben")) == ((5,), 0.8)


def test_analysis_of_an_incomplete_study_is_provisional_and_spends_nothing(ledger):
    with pytest.raises(Killed):
        run(ledger, [0, 1, 2], kill_after=8)
    study_id = ledger.studies.get_by_name_or_id("looks").id
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert (len(analysis.comparison.rows), analysis.is_provisional) == (2, True)
    assert analysis_sentences(analysis)[0].startswith("Provisional: the study is not complete")
    assert ledger.analyses.list_looks_by_study(study_id) == {}


def test_looks_of_another_study_leave_planned_looks_less_to_spend(ledger):
    undecided = {"losses": {"a": 0.5, "b": 0.5, "c": 0.9}, "spread": 0.02}
    planned = run(ledger, "{until: decided, at_most: 5}", **undecided)
    assert analyse(ledger, planned) == ((3, 5), 0.2)
    again = run(ledger, "{until: decided, at_most: 6}", **undecided)
    assert analyse(ledger, again) == ((3, 5, 6), 0.05)
