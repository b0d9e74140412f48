"""Seeds are added until the answer is certain: no trial too few, none too many, also after kills."""

from __future__ import annotations

import pytest

from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.execution.messages import TaskFailed
from bln_search.ranking.comparison import Verdict
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.reports.sentences.seed_looks import seed_looks_sentence
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.tiers import thinned
from tests.support.watchers import RecordingWatcher
from tests.worker.objective_executor import Killed
from tests.worker.outcome_executor import OutcomeExecutor, one_row_study

CLEAR = {"a": 0.5, "b": 0.8, "c": 0.9}
"""Mean losses of which one is lowest."""

CLOSE = {"a": 0.5, "b": 0.5, "c": 0.9}
"""Mean losses of which two are equal; seeds vary by more than the margin."""


def run(ledger, losses, *, at_most=10, spread=0.001, lines=None, **options):
    study_id = ledger.studies.store_study_once(one_row_study(*losses, seeds=f"{{until: decided, at_most: {at_most}}}"))
    executor = OutcomeExecutor(losses, spread=spread, **options)
    on_look = lines.append if lines is not None else lambda _: None
    state = run_study(ledger, study_id, executor, RecordingWatcher(), on_look=on_look)
    return study_id, executor, state


def trial_ends(ledger, study_id):
    return {(trial.arm, trial.seed): (trial.state, trial.reason) for trial in ledger.trials.list_trials(study_id)}


def test_clear_winner_ends_the_study_after_three_seeds(ledger):
    lines = []
    study_id, executor, state = run(ledger, CLEAR, lines=lines)
    assert state is StudyState.COMPLETE
    assert executor.seeds_by_arm == {arm: [0, 1, 2] for arm in "abc"}
    ends = trial_ends(ledger, study_id)
    assert {end for (_, seed), end in ends.items() if seed > 2} == {
        (TrialState.PRUNED, "not needed: decided after 3 seeds")
    }
    assert lines == ["Ended after 3 of at most 10 seeds."]
    study = ledger.studies.get(study_id)
    assert study.num_trials_with_result == study.planned == 30
    assert ledger.analyses.find_current_analysis(study_id) is None  # the complete study is still to be analysed
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert (analysis.recommendation.arm, analysis.recommendation.verdict) == ("a", Verdict.BETTER)
    assert (analysis.looks, analysis.comparison.level) == ((3,), pytest.approx(0.6 * ALPHA))
    board = ledger.results.rank_rows_of_study(study_id, study.spec)
    assert [(row.arm, row.rank, row.seeds) for row in board.rows] == [("a", 1, 3), ("b", 2, 3), ("c", 3, 3)]


def test_undecided_study_trains_open_arms_up_to_the_limit_and_drops_worse_ones(ledger):
    lines = []
    study_id, executor, state = run(ledger, CLOSE, spread=0.02, at_most=6, lines=lines)
    assert state is StudyState.COMPLETE
    assert executor.seeds_by_arm == {"a": [*range(6)], "b": [*range(6)], "c": [0, 1, 2]}
    reason = "out after 3 seeds, significantly worse"
    assert trial_ends(ledger, study_id)["c", 5] == (TrialState.PRUNED, reason)
    assert lines == [
        f"2 of 3 arms still open after 3 seeds; next look at 5 seeds; c: {reason}.",
        f"2 of 3 arms still open after 5 seeds; next look at 6 seeds; c: {reason}.",
    ]
    study = ledger.studies.get(study_id)
    trials = ledger.trials.list_trials(study_id)
    assert seed_looks_sentence(study.spec, trials) == f"Ended after 6 of at most 6 seeds; c: {reason}."
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert (analysis.looks, analysis.comparison.level) == ((3, 5, 6), pytest.approx(0.1 * ALPHA))
    assert {row.arm for row in analysis.comparison.rows} == {"a", "b"}
    last = ledger.results.rank_rows_of_study(study_id, study.spec).rows[-1]
    assert (last.arm, last.rank, last.missing_seeds.required) == ("c", None, 6)


@pytest.mark.parametrize("options", [{"spread": 0.05}, {"noise": 0.5}])
def test_seeds_that_are_unlikely_to_decide_are_not_added(ledger, options):
    """Seeds vary too much for the number of allowed seeds; or examples do, of which more seeds bring no more."""
    study_id, executor, state = run(ledger, CLOSE, at_most=6, **options)
    assert state is StudyState.COMPLETE
    assert executor.seeds_by_arm["a"] == [*range(5)]
    reason = "not needed: after 5 seeds, 6 are unlikely to decide"
    assert trial_ends(ledger, study_id)["a", 5] == (TrialState.PRUNED, reason)
    sentence = seed_looks_sentence(ledger.studies.get(study_id).spec, ledger.trials.list_trials(study_id))
    assert sentence.startswith("Ended after 5 of at most 6 seeds, because more are unlikely to decide")
    analysis = compute_and_store_analysis(ledger, study_id, None)
    assert analysis.recommendation.verdict is Verdict.CANNOT_TELL
    assert analysis.looks == (3, 5)


@pytest.mark.parametrize("kill_after", thinned([2, 9, 12, 14], 2))
def test_killed_run_resumes_with_the_same_trials(ledger, kill_after):
    with pytest.raises(Killed):
        run(ledger, CLOSE, spread=0.02, at_most=6, kill_after=kill_after)
    study_id, _, state = run(ledger, CLOSE, spread=0.02, at_most=6)
    assert state is StudyState.COMPLETE
    ends = trial_ends(ledger, study_id)
    trained = {key for key, (trial_state, _) in ends.items() if trial_state is TrialState.FINISHED}
    assert trained == {(arm, seed) for arm in "ab" for seed in range(6)} | {("c", seed) for seed in range(3)}
    assert compute_and_store_analysis(ledger, study_id, None).looks == (3, 5, 6)


def test_kill_between_the_end_of_trials_and_the_look_repeats_the_look(ledger, monkeypatch):
    def fail(*_arguments):
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(ledger.analyses, "save_analysis_of_look", fail)
        with pytest.raises(Killed):
            run(ledger, CLEAR)
    study_id, executor, state = run(ledger, CLEAR)
    assert state is StudyState.COMPLETE
    assert executor.seeds_by_arm == {arm: [] for arm in CLEAR}
    assert compute_and_store_analysis(ledger, study_id, None).looks == (3,)


def test_worker_of_the_queue_makes_the_looks_and_analyses_the_complete_study(worker):
    worker.executor = OutcomeExecutor(CLEAR)
    study = one_row_study(*CLEAR, seeds="{until: decided}")
    study_id = worker.ledger.queue.submit_study(study, "ada").study_id
    worker.run_until_stopped(once=True)
    assert worker.executor.seeds_by_arm == {arm: [0, 1, 2] for arm in CLEAR}
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    assert (analysis.looks, analysis.recommendation.verdict) == ((3,), Verdict.BETTER)


def test_failed_trial_fails_the_study_although_further_seeds_wait(ledger):
    failure = TaskFailed(FailureClass.USER_ERROR, "broken")
    study_id, _, state = run(ledger, CLEAR, respond=lambda trial: failure if trial.seed == 1 else None)
    assert state is StudyState.FAILED
    assert ledger.studies.get(study_id).trials[TrialState.WAITING] == 21
    study_id, executor, state = run(ledger, CLEAR)
    assert state is StudyState.COMPLETE
    assert executor.seeds_by_arm == {arm: [1] for arm in "abc"}
