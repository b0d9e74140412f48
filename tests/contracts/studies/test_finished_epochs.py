"""The finished part of a study never decreases, over every database: not by kills, retries or new beginnings."""

from __future__ import annotations

import random

import pytest

from bln_search.core.records import EpochRecord
from bln_search.core.states import ENDED, FailureClass, TrialState
from bln_search.storage.engine import read_session
from bln_search.storage.pagination import PageRequest
from bln_search.storage.studies.progress import sum_finished_fractions_by_study
from bln_search.storage.trials.reports import ResumptionReport
from service.serializers import serialize_study
from tests.support.service_world import RUNNER as WORKER
from tests.support.service_world import finish_trial, start_study
from tests.support.tiers import thinned

EPOCHS = 10


def epochs(first, last):
    return [EpochRecord(number, 0.5, 0.6, 0.7, 0.8, 10.0) for number in range(first, last + 1)]


@pytest.fixture
def study_id(ledger):
    return start_study(ledger, "study", "ada", seeds=range(3), epochs=EPOCHS)[0]


def progress(ledger):
    (item,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "created"))
    return serialize_study(item).progress.fraction


def claim(ledger, study_id, position=0):
    trial = ledger.trials.list_claimable_trials(study_id)[position]
    return ledger.attempts.claim_trial(trial.id, WORKER)


def test_the_attempt_that_came_furthest_counts(ledger, study_id):
    for last in (3, 7, 5):
        token = claim(ledger, study_id)
        ledger.attempts.record_epochs(token, epochs(1, last))
        ledger.attempts.release_attempts([token])
    assert progress(ledger) == pytest.approx(0.7 / 3)
    token = claim(ledger, study_id)
    ledger.attempts.record_epochs(token, epochs(1, 8))
    assert progress(ledger) == pytest.approx(0.8 / 3)


@pytest.mark.parametrize("finish", ["release", "fail", "give up"])
def test_an_attempt_that_ends_without_result_takes_nothing_away(ledger, study_id, finish):
    token = claim(ledger, study_id)
    ledger.attempts.record_epochs(token, epochs(1, 6))
    if finish == "release":
        ledger.attempts.release_attempts([token])
    else:
        ledger.attempts.record_failure(token, FailureClass.INFRASTRUCTURE, "why", again=finish == "fail")
    assert progress(ledger) == pytest.approx(0.6 / 3)
    ledger.studies.finish_run(study_id, exhausted=False, runner=WORKER)
    assert progress(ledger) == pytest.approx(0.6 / 3)


def test_a_resumed_training_counts_its_earlier_epochs_once(ledger, study_id):
    token = claim(ledger, study_id)
    ledger.attempts.record_epochs(token, epochs(1, 6))
    ledger.attempts.release_attempts([token])
    token = claim(ledger, study_id)
    assert progress(ledger) == pytest.approx(0.6 / 3)  # before it reports that it resumes
    ledger.attempts.record_attempt_reports([ResumptionReport(token, epochs(1, 4))])
    assert progress(ledger) == pytest.approx(0.6 / 3)
    ledger.attempts.record_epochs(token, epochs(5, 9))
    assert progress(ledger) == pytest.approx(0.9 / 3)


@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_a_random_history_never_goes_back(ledger, study_id, seed):
    draw, before, running = random.Random(seed), 0.0, {}
    for _ in range(60):
        trials = {trial.id: trial for trial in ledger.trials.list_trials(study_id)}
        waiting = [trial for trial in trials.values() if trial.state in (TrialState.WAITING, TrialState.FAILED)]
        if running and draw.random() < 0.8:
            trial_id = draw.choice(list(running))
            token, epoch = running[trial_id]
            action = draw.choice(["train", "train", "train", "release", "fail"])
            if action == "train" and epoch < EPOCHS:
                ledger.attempts.record_epochs(token, epochs(epoch + 1, epoch + 1))
                running[trial_id] = (token, epoch + 1)
            elif action == "fail":
                ledger.attempts.record_failure(token, FailureClass.INFRASTRUCTURE, "why", again=True)
                del running[trial_id]
            else:
                ledger.attempts.release_attempts([token])
                del running[trial_id]
        elif waiting:
            trial = draw.choice(waiting)
            running[trial.id] = (ledger.attempts.claim_trial(trial.id, WORKER), 0)
        after = progress(ledger)
        assert after >= before
        before = after
    assert before > 0


def test_studies_without_an_attempt_cost_nothing(ledger, study_id):
    with read_session(ledger.database.engine) as session:
        assert sum_finished_fractions_by_study(session, []) == {}
        assert sum_finished_fractions_by_study(session, [study_id]) == {}
    trial = ledger.trials.list_claimable_trials(study_id)[0]
    finish_trial(ledger, trial)
    assert ledger.trials.get_trial(trial.id).state in ENDED
    with read_session(ledger.database.engine) as session:
        assert sum_finished_fractions_by_study(session, [study_id]) == {}
