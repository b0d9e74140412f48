"""Results of a study are never mixed with those of changed code unless a person accepts it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bln_search.core.code_identity import CODE, CodeIdentity
from bln_search.core.errors import CodeChangedError, StorageFullError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import FailureClass, StudyState
from bln_search.data import load_data_set
from bln_search.execution.code_identity import compute_code_identity
from bln_search.execution.messages import EvaluationDone, TaskFailed, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.evaluation import ProbesSpec
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.worker import run_study
from bln_search.worker.layer_search import search_layers_of_study
from bln_search.worker.probe_study import probe_networks_of_study
from bln_search.worker.study_code import check_code_of_study
from tests.support.watchers import RecordingWatcher
from tests.worker.plugin_package import CHANGES, PluginPackage
from tests.worker.scripted_executor import ScriptedExecutor
from tests.worker.small_study import small_study

STUDY = """
name: fast
data: {name: fast_data, validation: 0.25}
model: {name: fast_net}
task: {name: fast}
arms: [{method: bln}]
training: {epochs: 1, batch_size: 10}
evaluation: {conditions: [fast_noise-1]}
seeds: [0, 1]
"""
TRAINED = (TrainingDone(CheckpointRecord("file", "0" * 64, 1, "FFFF", 0.5, {})), EvaluationDone(()))
LOST = TaskFailed(FailureClass.INFRASTRUCTURE, "the power failed", machine_error=StorageFullError)


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "package"
    folder.mkdir()
    return PluginPackage(folder, monkeypatch)


@pytest.fixture
def study_id(ledger, package):
    return ledger.studies.store_study_once(parse_study(STUDY))


def run(ledger, study_id, *messages, **options):
    return run_study(ledger, study_id, ScriptedExecutor(*messages), RecordingWatcher(), **options)


def changed_files(ledger, study_id):
    return [version.changed for version in ledger.studies.get(study_id).code.versions]


@pytest.mark.parametrize("name", CHANGES)
def test_changed_code_is_refused_and_named(ledger, study_id, package, name):
    assert run(ledger, study_id, TRAINED, TRAINED) is StudyState.COMPLETE
    package.change(name)
    with pytest.raises(CodeChangedError, match=rf"{name} \({package.folder / name}\).*--accept-code-change"):
        run(ledger, study_id)
    assert changed_files(ledger, study_id) == [()]


@pytest.mark.parametrize("name", CHANGES)
def test_an_accepted_change_is_recorded_once_and_every_recorded_version_is_accepted(ledger, study_id, package, name):
    run(ledger, study_id, TRAINED, TRAINED)
    before = ledger.studies.get(study_id)
    package.change(name)
    for _ in range(2):
        run(ledger, study_id, accept_code_change=True)
    after = ledger.studies.get(study_id)
    assert changed_files(ledger, study_id) == [(), (name,)]
    assert [version.is_accepted for version in after.code.versions] == [False, True]
    assert (before.code_changes, len(after.code_changes), name in after.code_changes[0]) == ((), 1, True)
    assert run(ledger, study_id) is StudyState.COMPLETE
    (package.folder / name).write_text((package.folder / name).read_text().replace(*reversed(CHANGES[name])))
    package.start_new_process()
    assert run(ledger, study_id) is StudyState.COMPLETE


def test_an_interrupted_study_is_not_resumed_with_other_code(ledger, study_id, package):
    with pytest.raises(Exception, match="the power failed"):
        run(ledger, study_id, TRAINED, LOST)
    package.change("fast_layers.py")
    executor = ScriptedExecutor()
    with pytest.raises(CodeChangedError):
        run_study(ledger, study_id, executor, RecordingWatcher())
    assert executor.tasks == []
    assert ledger.studies.get(study_id).state is StudyState.INTERRUPTED


@pytest.mark.parametrize("command", ["probe", "search-layers", "verify and export"])
def test_every_use_of_trained_networks_compares_the_code(ledger, study_id, package, environment, command):
    run(ledger, study_id, TRAINED, TRAINED)
    package.change("fast_net.py")
    with pytest.raises(CodeChangedError, match=r"fast_net\.py"):
        if command == "probe":
            probe_networks_of_study(ledger, study_id, environment, ProbesSpec(batch_sizes=(1,)), print)
        elif command == "search-layers":
            search_layers_of_study(ledger, study_id, environment, LayerSearchSpec(), print)
        else:
            check_code_of_study(ledger, ledger.studies.get(study_id))


def test_a_study_without_recorded_code_is_accepted_and_recorded_where_it_resumes(ledger, study_id):
    study = ledger.studies.get(study_id)
    assert check_code_of_study(ledger, study) is None
    assert check_code_of_study(ledger, replace(study, state=StudyState.COMPLETE), adds_results=True) is None
    trained = replace(study, trials={"finished": 1})
    code = check_code_of_study(ledger, trained, adds_results=True)
    assert [version.has_earlier_results for version in code.versions] == [True]
    assert len(code.change_sentences) == 1


def test_a_change_of_bln_search_needs_no_acceptance_and_is_recorded_where_results_are_added(ledger, monkeypatch):
    study_id = ledger.studies.store_study_once(small_study())
    run(ledger, study_id)
    identity = compute_code_identity(small_study())
    assert not identity.plugins
    assert {"bln_search/norms", "bln_search/models/mlp.py", "bln_search/data/digits.py"} <= set(identity.built_in)
    other = CodeIdentity({}, {**identity.built_in, "bln_search/norms": "0" * 32})
    monkeypatch.setattr("bln_search.worker.study_code.compute_code_identity", lambda _: other)
    study = ledger.studies.get(study_id)
    assert check_code_of_study(ledger, study).versions == study.code.versions
    check_code_of_study(ledger, study, adds_results=True)
    versions = ledger.studies.get(study_id).code.versions
    assert [(version.changed, version.is_accepted) for version in versions] == [
        ((), False),
        (("bln_search/norms",), False),
    ]


@pytest.fixture
def assume_upgrade(monkeypatch):
    """Lets the digests of bln-search differ from then on, as after an upgrade."""
    identity = compute_code_identity(small_study())
    other = CodeIdentity({}, {**identity.built_in, "bln_search/norms": "0" * 32})

    def upgrade():
        for module in ("study_code", "study_run"):
            monkeypatch.setattr(f"bln_search.worker.{module}.compute_code_identity", lambda _: other)

    return upgrade


@pytest.fixture
def interrupted_id(ledger):
    study_id = ledger.studies.store_study_once(small_study())
    with pytest.raises(StorageFullError):
        run(ledger, study_id, TRAINED, LOST)
    return study_id


def test_a_run_that_adds_no_result_records_no_version(ledger, interrupted_id, assume_upgrade):
    assert run(ledger, interrupted_id, TRAINED) is StudyState.COMPLETE
    assume_upgrade()
    assert run(ledger, interrupted_id) is StudyState.COMPLETE
    assert changed_files(ledger, interrupted_id) == [()]


def test_a_run_that_adds_results_records_the_version(ledger, interrupted_id, assume_upgrade):
    assume_upgrade()
    run(ledger, interrupted_id, TRAINED)
    assert changed_files(ledger, interrupted_id) == [(), ("bln_search/norms",)]


def test_a_trial_in_a_process_with_other_code_is_refused(ledger, study_id, package, environment):
    trial = list_planned_trial_specs(parse_study(STUDY))[0]
    code = compute_code_identity(trial)
    other = CodeIdentity({**code.plugins, "fast_net.py": "0" * 32}, code.built_in)
    with pytest.raises(CodeChangedError, match=r"fast_net\.py"):
        list(iter_epochs_of_trial_task(TrialTask(1, trial, code=other), environment, print))
    refused = TaskFailed(FailureClass.INFRASTRUCTURE, "fast_net.py differs", machine_error=CodeChangedError)
    with pytest.raises(CodeChangedError, match=r"fast_net\.py differs"):
        run(ledger, study_id, TRAINED, refused)
    assert ledger.studies.get(study_id).state is StudyState.INTERRUPTED


def test_a_checkpoint_has_the_code_of_its_trial(package, environment):
    trial = list_planned_trial_specs(parse_study(STUDY))[0]
    messages = []
    list(iter_epochs_of_trial_task(TrialTask(1, trial), environment, messages.append))
    (checkpoint,) = [message.checkpoint for message in messages if isinstance(message, TrainingDone)]
    assert CodeIdentity.from_json_object(checkpoint.provenance[CODE]) == compute_code_identity(trial)
    assert set(checkpoint.provenance[CODE]["plugins"]) == set(CHANGES)


def test_decoded_data_of_other_code_is_not_used(package, tmp_path):
    first = load_data_set("fast_data", tmp_path, tmp_path / "cache")
    package.change("fast_data.py")
    second = load_data_set("fast_data", tmp_path, tmp_path / "cache")
    assert first.train_labels.tolist() == [number % 2 for number in range(40)]
    assert second.train_labels.tolist() == [number % 3 % 2 for number in range(40)]
    assert load_data_set("fast_data", tmp_path, tmp_path / "cache").sha256 == second.sha256
