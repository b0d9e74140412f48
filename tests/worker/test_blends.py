"""A study with blends runs in this process; its rows equal `evaluate_configurations` on its checkpoints."""

from __future__ import annotations

import pytest
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.blend import parse_estimate_label
from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.states import EvaluationState, StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.specs import list_planned_configurations_and_estimates, parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher

STUDY = """
name: blended
data: {name: digits, fraction: 0.2, validation: 205, standardization: channel}
model: {name: mlp, widths: [8]}
arms: [{method: bn}, {method: bln}]
training: {epochs: 1, batch_size: 16}
seeds: [0, 1]
evaluation: {batch_sizes: [10, 16], blends: [0.5, N16], moving: [0.5, N16], conditions: [gaussian_noise-5]}
probes: {reshuffles: 1}
"""
SPEC = parse_study(STUDY)

pytestmark = pytest.mark.xdist_group("blended study")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The ledger, the number and the environment of the finished study."""
    home = tmp_path_factory.mktemp("home")
    ledger = open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    environment = ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))
    study_id = ledger.studies.store_study_once(SPEC)
    assert run_study(ledger, study_id, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
    yield ledger, study_id, environment
    ledger.close()


def evaluate(loaded):
    """The board of the Python API on the data and the network of a trial."""
    splits = loaded.data.splits
    loaders = {
        split: DataLoader(TensorDataset(*splits[split]), loaded.trial.training.batch_size, drop_last=drop_last)
        for split, drop_last in ((Split.TRAIN, True), (Split.VALIDATION, False), (Split.TEST, False))
    }
    return bln_search.evaluate_configurations(
        loaded.network,
        loaders[Split.TRAIN],
        loaders[Split.VALIDATION],
        test_loader=loaders[Split.TEST],
        batch_sizes=SPEC.evaluation.batch_sizes,
        blends=[0.5, "N16"],
        moving=[0.5, "N16"],
    )


@pytest.mark.parametrize("arm", ["bn", "bln"])
def test_rows_equal_those_of_the_python_api_on_the_checkpoint(finished, arm):
    ledger, study_id, environment = finished
    trial = next(trial for trial in ledger.trials.list_trials(study_id) if trial.arm == arm)
    stored = {
        item.key: item
        for item in ledger.results.list_trial_evaluations_with_outcomes(trial.id)
        if item.key.has_no_condition
    }
    with use_trained_network(trial.spec, trial.checkpoint, environment) as loaded:
        ranked = evaluate(loaded)
    assert ranked.outcomes.keys() == stored.keys()
    for key, outcomes in ranked.outcomes.items():
        assert stored[key].outcomes.losses == pytest.approx(outcomes.losses, rel=1e-5, abs=1e-6)
    assert {key.estimate for key in stored if key.configuration.uses_blend} == {"frozen@0.5", "frozen@N16"}


def test_weights_that_are_equal_at_a_batch_size_share_a_rank(finished):
    ledger, study_id, _ = finished
    ranks = {}
    for row in ledger.results.rank_rows_of_study(study_id, SPEC).rows:
        if row.configuration.uses_blend:
            ranks.setdefault((row.arm, row.configuration, row.batch_size), set()).add(row.rank)
    assert {len(values) for (_, _, size), values in ranks.items() if size == 16} == {1}  # 16/(16 + 16) is 0.5
    assert {len(values) for (_, _, size), values in ranks.items() if size == 10} == {2}


def test_interrupted_study_evaluates_blends_from_its_checkpoints(tmp_path):
    spec = parse_study(STUDY.replace("[{method: bn}, {method: bln}]", "[{method: bn}]"))
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"))
    study_id = ledger.studies.store_study_once(spec)

    class StoppedExecutor(InProcessExecutor):
        def run(self, next_task, report, pulse, trials=1):
            task = next_task()
            for record in iter_epochs_of_trial_task(task, environment, lambda message: report(task, message)):
                if record is None:  # trained, not evaluated
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(ledger, study_id, StoppedExecutor(environment), RecordingWatcher())
    executor = InProcessExecutor(environment)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert executor.evaluated_from_checkpoint == 1
    for trial in ledger.trials.list_trials(study_id):
        evaluations = ledger.results.list_trial_evaluations_with_outcomes(trial.id)
        rows = {(item.key.configuration, item.key.estimate) for item in evaluations}
        assert rows == set(list_planned_configurations_and_estimates(trial.spec))
        assert all(item.state is EvaluationState.MEASURED for item in evaluations)
    ledger.close()


def test_statistics_treat_blends_as_rows_that_depend_on_the_mini_batch(finished):
    ledger, study_id, environment = finished
    analysis = compute_and_store_analysis(ledger, study_id, environment)
    assert analysis.reason is None
    blended = [row for row in analysis.comparison.rows if parse_estimate_label(row.estimate or "frozen")[1] is not None]
    assert blended
    recommended = analysis.recommendation
    assert recommended.deterministic is InferenceConfiguration(recommended.configuration).is_deterministic
    assert all(not InferenceConfiguration(row.configuration).is_deterministic for row in blended)
    (selected,) = {row.key for row in blended[:1]}
    forced = recommend_row(analysis.comparison.model_copy(update={"rows": (blended[0],), "pairs": ()}), {})
    assert forced.key == selected
    assert not forced.deterministic
    assert forced.alternative is None
    configurations = {(latency.arm, latency.configuration) for latency in analysis.latencies}
    assert (recommended.arm, recommended.configuration) in configurations
    effects = {effect.estimate for effect in analysis.effects}
    assert effects == {"frozen"}
    assert {share.arm for share in analysis.shares} >= {"bn", "bln"}
