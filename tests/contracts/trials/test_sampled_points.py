"""Trials of sampled points, and the records of Optuna beside them."""

from __future__ import annotations

import optuna
import pytest

from bln_search.core.errors import StaleAttemptError
from bln_search.core.records import EpochRecord
from bln_search.core.states import StudyState, TrialState
from bln_search.search.optuna.records import OptunaRecords
from bln_search.specs.sections.search import Objective
from bln_search.specs.trial import make_full_trial_spec
from tests.contracts.trained_studies import CHECKPOINT, SAMPLED_STUDY, begin_study, finish_trial, no_worker_is_alive


def point(rate):
    return [
        make_full_trial_spec(SAMPLED_STUDY, SAMPLED_STUDY.arms[0], {"training.learning_rate": rate}, seed)
        for seed in SAMPLED_STUDY.seeds
    ]


def test_sampled_point_is_stored_once_with_all_seeds(ledger):
    study_id = ledger.studies.store_study_once(SAMPLED_STUDY)
    assert ledger.trials.list_claimable_trials(study_id) == []
    added = ledger.trials.add_trials_of_new_point(study_id, point(0.01))
    assert [trial.spec.seed for trial in added] == [0, 1]
    assert ledger.trials.add_trials_of_new_point(study_id, point(0.01)) is None
    assert len(ledger.trials.add_trials_of_new_point(study_id, point(0.02))) == 2
    assert ledger.trials.list_claimable_trials(study_id)[:2] == added
    assert [trial.point_label for trial in ledger.trials.list_trials(study_id)] == [
        "learning_rate=0.01",
        "learning_rate=0.01",
        "learning_rate=0.02",
        "learning_rate=0.02",
    ]


def test_pruned_trial_is_a_result_for_the_sampler(ledger):
    study_id, _ = begin_study(ledger, SAMPLED_STUDY)
    first, second = ledger.trials.add_trials_of_new_point(study_id, point(0.01))
    token = ledger.attempts.claim_trial(first.id, "host/1/0")
    ledger.attempts.record_epochs(token, [EpochRecord(1, 0.9, 0.1, 0.8, 0.2, 1.0)])
    ledger.attempts.record_pruning(token, 1)
    with pytest.raises(StaleAttemptError):
        ledger.attempts.record_epochs(token, [EpochRecord(2, 0.9, 0.1, 0.7, 0.2, 1.0)])
    finish_trial(ledger, second)
    ((pruned, finished),) = ledger.trials.list_sampled_trials_grouped_by_point(study_id)
    assert (pruned.state, pruned.losses, pruned.objective_value(Objective.LOSS)) == (TrialState.PRUNED, {1: 0.8}, None)
    assert finished.objective_value(Objective.LOSS) == CHECKPOINT.validation_loss
    assert finished.objective_value(Objective.BEST_LOSS) < 1
    assert finished.objective_value(Objective.PARAMETERS) is None
    assert ledger.trials.list_sampled_trials_grouped_by_point(study_id, [pruned.key, finished.key]) == [
        [pruned, finished]
    ]
    assert ledger.trials.list_sampled_trials_grouped_by_point(study_id, ["another"]) == []
    assert ledger.studies.finish_run(study_id, exhausted=False) is StudyState.INTERRUPTED
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    assert ledger.studies.finish_run(study_id, exhausted=True) is StudyState.COMPLETE


def test_optuna_records_are_apart_from_the_ledger(ledger):
    """Its tables are called like ours or like Alembic's: in one namespace they would break each other."""
    storage = OptunaRecords(*ledger.prepare_optuna_url_and_schema())
    study = optuna.create_study(storage=storage, study_name="other")
    study.tell(study.ask(), 1.0)
    assert optuna.load_study(study_name="other", storage=storage).best_value == 1.0
    study_id = ledger.studies.store_study_once(SAMPLED_STUDY)
    assert ledger.studies.get(study_id).name == "searched"
    storage.remove_session()
    storage.engine.dispose()
