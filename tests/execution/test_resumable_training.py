"""An attempt resumes from the state that an earlier one saved, with equal results, or starts anew where it cannot."""

from __future__ import annotations

import logging
import random
from dataclasses import astuple, replace

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import CheckpointStoreError
from bln_search.execution import resumable_training
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    TrainingDone,
    TrainingResumed,
    TrainingStateSaved,
    TrialTask,
)
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.specs.sections.search import Objective
from tests.support.tiers import thinned

STUDY = """
name: resumed
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8], placement: before}
arms: [{method: bln, population: [frozen, epoch, moving]}]
training: {epochs: 5}
seeds: [0]
probes: {epochs: 2, geometry: 20}
"""
(TRIAL,) = list_planned_trial_specs(parse_study(STUDY))
STATE = "0123456789abcdef0123456789abcdef.state"


class Killed(BaseException):
    """The process ends."""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    return ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path / "checkpoints"), threads=1, save_seconds=0)


def run(environment, trial=TRIAL, *, kill_after=None, state_file=STATE, **options):
    """Run an attempt, until it is killed after it has sent an epoch; returns its messages."""
    sent = []
    steps = iter_epochs_of_trial_task(TrialTask(1, trial, state_file=state_file, **options), environment, sent.append)
    for record in steps:
        if record is not None and record.epoch == kill_after:
            steps.close()
            break
    return sent


def epochs_of(messages):
    return [message.record.epoch for message in messages if isinstance(message, EpochDone)]


def results_of(messages):
    """Checkpoint with provenance and content hash, evaluations and probes; durations are not compared."""
    (checkpoint,) = (message.checkpoint for message in messages if isinstance(message, TrainingDone))
    (done,) = (message for message in messages if isinstance(message, EvaluationDone))
    evaluations = [astuple(replace(evaluation, outcomes=None)) for evaluation in done.evaluations]
    losses = [evaluation.outcomes.losses.tolist() for evaluation in done.evaluations if evaluation.outcomes is not None]
    return checkpoint, evaluations, losses, done.probes


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    return results_of(run(ExecutionEnvironment(folder, folder, FolderStore(folder / "checkpoints"))))


@pytest.mark.parametrize("kill_after", thinned([2, 3, 5], 3, start=1))
def test_a_resumed_attempt_has_the_results_of_an_uninterrupted_one(environment, expected, kill_after):
    """An epoch whose report the driver has not answered is trained again."""
    first = run(environment, kill_after=kill_after)
    assert epochs_of(first) == list(range(1, kill_after + 1))
    assert sum(isinstance(message, TrainingStateSaved) for message in first) == 1
    second = run(environment)
    (resumed,) = (message for message in second if isinstance(message, TrainingResumed))
    assert [astuple(record) for record in resumed.records] == [
        astuple(message.record) for message in first if isinstance(message, EpochDone)
    ][: kill_after - 1]
    assert epochs_of(second) == list(range(kill_after, 6))
    assert results_of(second) == expected


def test_an_attempt_that_is_killed_again_and_again_has_the_same_results(environment, expected):
    for kill_after in (2, 3, 5):
        run(environment, kill_after=kill_after)
    last = run(environment)
    assert epochs_of(last) == [5]
    assert results_of(last) == expected


def test_a_state_is_saved_within_an_epoch_once_the_interval_has_passed(environment, expected, monkeypatch):
    environment = replace(environment, save_seconds=1e-9)
    draw = random.Random(0)

    def attempt(*arguments, **options):
        training = make(*arguments, **options)
        save, left = training.run.after_step, draw.randrange(8, 14)

        def save_then_die():
            nonlocal left
            save()
            left -= 1
            if left == 0:
                raise Killed

        training.run.after_step = save_then_die
        return training

    make = resumable_training.ResumableTraining
    monkeypatch.setattr("bln_search.execution.resumable_training._LEAST_WORK_PER_SAVE", 0)
    monkeypatch.setattr("bln_search.execution.trial_training.ResumableTraining", attempt)
    for _ in range(4):
        with pytest.raises(Killed):
            run(environment)
    monkeypatch.setattr("bln_search.execution.trial_training.ResumableTraining", make)
    last = run(environment)
    assert sum(isinstance(message, TrainingResumed) for message in last) == 1
    assert len(epochs_of(last)) < 5
    assert results_of(last) == expected


def test_short_trainings_save_nothing(environment):
    sent = run(replace(environment, save_seconds=60.0))
    assert not any(isinstance(message, TrainingStateSaved) for message in sent)
    assert not environment.checkpoints.has_file(STATE)


@pytest.mark.parametrize("off", [{"environment": {"save_seconds": None}}, {"task": {"state_file": None}}])
def test_nothing_is_saved_and_read_where_saving_is_off(environment, off):
    run(environment, kill_after=3)
    environment = replace(environment, **off.get("environment", {}))
    assert epochs_of(run(environment, **off.get("task", {}))) == [1, 2, 3, 4, 5]


def damage(environment, change):
    path = environment.checkpoints.path / STATE
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    "change",
    thinned(
        [
            pytest.param(lambda content: content[: len(content) // 2], id="truncated"),
            pytest.param(lambda content: content[:-9] + b"!" + content[-8:], id="a bit is wrong"),
            pytest.param(lambda content: content.replace(b"state 1", b"state 0", 1), id="another version"),
            pytest.param(lambda _: b"", id="empty"),
            pytest.param(lambda _: b"a picture\n\n\n", id="another file"),
        ],
        4,
    ),
)
def test_an_unusable_file_is_logged_and_training_starts_anew(environment, expected, change, caplog):
    run(environment, kill_after=3)
    damage(environment, change)
    with caplog.at_level(logging.WARNING):
        second = run(environment)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert STATE in caplog.text
    assert epochs_of(second) == [1, 2, 3, 4, 5]
    assert results_of(second) == expected


@pytest.mark.parametrize(
    ("function", "value"),
    [("_describe_processor", "another processor"), ("digest_folder", "another revision")],
)
def test_a_state_of_another_machine_or_revision_is_not_used(
    environment, expected, function, value, monkeypatch, caplog
):
    with monkeypatch.context() as patch:
        patch.setattr(f"bln_search.execution.provenance.{function}", lambda *_: value)
        run(environment, kill_after=3)
    second = run(environment)
    assert value in caplog.text
    assert epochs_of(second) == [1, 2, 3, 4, 5]
    assert results_of(second) == expected


def test_a_state_of_another_trial_or_measurement_is_not_used(environment, caplog):
    run(environment, kill_after=3)
    other = TRIAL.model_copy(update={"seed": 1})
    assert epochs_of(run(environment, other, kill_after=2)) == [1, 2]
    assert epochs_of(run(environment, other, measured=(Objective.RUNNING_TRAINING_LOSS,), kill_after=1)) == [1]
    assert len(caplog.records) == 2


def test_a_state_that_does_not_fit_is_discarded_and_training_starts_anew(environment, expected, monkeypatch, caplog):
    """The network is partly restored when it shows."""
    run(environment, kill_after=3)
    monkeypatch.setattr("bln_search.training.training_state._restore_optimizer", lambda *_: 1 / 0)
    second = run(environment)
    assert "ZeroDivisionError" in caplog.text
    assert epochs_of(second) == [1, 2, 3, 4, 5]
    assert results_of(second) == expected


def test_a_state_whose_snapshot_is_missing_is_discarded(environment, expected):
    run(environment, kill_after=4)
    for file in list(environment.checkpoints.iter_files()):
        if file.name.endswith(".safetensors"):
            environment.checkpoints.delete(file.name)
    second = run(environment)
    assert epochs_of(second) == [1, 2, 3, 4, 5]
    assert results_of(second) == expected


class FailingStore(FolderStore):
    """A store that accepts no state."""

    def write(self, name, content):
        if name == STATE:
            raise CheckpointStoreError("the bucket is gone")
        super().write(name, content)


def test_training_continues_where_its_state_cannot_be_saved(environment, expected, caplog):
    sent = run(replace(environment, checkpoints=FailingStore(environment.checkpoints.path)))
    assert "the bucket is gone" in caplog.text
    assert not any(isinstance(message, TrainingStateSaved) for message in sent)
    assert results_of(sent) == expected
