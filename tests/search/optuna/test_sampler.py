"""Optuna suggests points of the space, receives their results, and may lose its records."""

from __future__ import annotations

from dataclasses import dataclass, field

import optuna
import pytest
from pydantic import TypeAdapter

from bln_search.core.errors import LedgerError
from bln_search.core.states import TrialState
from bln_search.search.optuna.sampler import OptunaPointSampler
from bln_search.specs.sections.search import Objective, Pruner, Sampler, SearchSpec
from bln_search.specs.sections.space import Space
from tests.support.tiers import latin, thinned

SPACE = TypeAdapter(Space).validate_python(
    {
        "training.learning_rate": {"kind": "float", "low": 1e-4, "high": 1.0, "log": True},
        "arm.memory": {"kind": "int", "low": 5, "high": 40, "step": 5},
        "arm.lambda": {"kind": "schedule", "at": [0, 0.5], "low": 0, "high": 1},
    }
)
CHOICES = TypeAdapter(Space).validate_python(
    {
        "training": {"kind": "choice", "values": [{"batch_size": 8}, {"batch_size": 16}]},
        "arm.lambda": {"kind": "schedule", "values": [0.1, {0: 0.1, 0.5: 0.9}]},
        "training.optimizer": {"kind": "choice", "values": ["sgd", "adam"]},
    }
)

SUGGESTING = thinned([sampler for sampler in Sampler if sampler not in (Sampler.GRID, Sampler.BRENT)], 3, start=1)

OPENED = []


@dataclass
class Record:
    key: str
    parameters: dict
    state: TrialState = TrialState.FINISHED
    losses: dict = field(default_factory=dict)
    loss: float = 0.5

    def objective_value(self, objective):
        return self.loss if objective is Objective.LOSS else len(self.key)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'optuna.sqlite3'}"


@pytest.fixture(autouse=True)
def storages():
    """Connections that a test opened; they are closed after it."""
    yield OPENED
    for storage in OPENED:
        storage.remove_session()
        storage.engine.dispose()
    OPENED.clear()


def make_sampler(url, space=SPACE, **search):
    spec = SearchSpec(**{"startup": 3, **search})
    sampler = OptunaPointSampler(spec, space, storage=url, name="study arm", epochs=9)
    OPENED.append(sampler.storage)
    return sampler


def load_study(url):
    """Optuna's records of the search."""
    OPENED.append(optuna.storages.RDBStorage(url))
    return optuna.load_study(study_name="study arm", storage=OPENED[-1])


def ask(arm_sampler, key):
    trial = arm_sampler.ask()
    arm_sampler.accept_suggestion(trial, key)
    return Record(key, arm_sampler.point_of_suggestion(trial))


def states(url):
    study = load_study(url)
    return [trial.state.name for trial in study.trials]


@pytest.mark.parametrize("sampler", SUGGESTING)
def test_every_sampler_suggests_points_of_the_space(url, sampler):
    arm_sampler = make_sampler(url, sampler=sampler)
    for step in range(5):
        record = ask(arm_sampler, f"key{step}")
        assert 1e-4 <= record.parameters["training.learning_rate"] <= 1
        assert record.parameters["arm.memory"] % 5 == 0
        assert set(record.parameters["arm.lambda"]["steps"]) == {"0", "0.5"}
        record.loss = record.parameters["training.learning_rate"]
        arm_sampler.tell([record])
    assert states(url) == ["COMPLETE"] * 5


@pytest.mark.parametrize("sampler", thinned([Sampler.RANDOM, Sampler.TPE, Sampler.GP, Sampler.NSGA2], 4))
def test_choices_and_schedules_are_suggested_unchanged(url, sampler):
    arm_sampler = make_sampler(url, CHOICES, sampler=sampler)
    suggested = [ask(arm_sampler, f"key{step}").parameters for step in range(12)]
    assert all(point["training"] in ({"batch_size": 8}, {"batch_size": 16}) for point in suggested)
    assert {point["training.optimizer"] for point in suggested} == {"sgd", "adam"}
    assert {point["arm.lambda"]["kind"] for point in suggested} == {"constant", "steps"}


def test_several_objectives_have_a_pareto_front(url):
    sampler = make_sampler(url, sampler="nsga2", objectives=("loss", "parameters"))
    for step in range(4):
        sampler.tell([ask(sampler, "x" * (step + 1))])
    study = load_study(url)
    assert study.metric_names == ["loss", "parameters"]
    assert [trial.values for trial in study.best_trials] == [[0.5, 1.0]]


def test_bad_trial_is_pruned_and_recorded_as_pruned(url):
    sampler = make_sampler(url, pruner=Pruner.ASHA)
    good_trial = ask(sampler, "good")
    assert not any(sampler.report_loss_and_should_prune("good", epoch, 0.1) for epoch in range(1, 10))
    sampler.tell([good_trial])
    bad_trial = ask(sampler, "bad")
    stops = [sampler.report_loss_and_should_prune("bad", epoch, 5.0) for epoch in (1, 2, 3)]
    assert any(stops)
    bad_trial.state = TrialState.PRUNED
    sampler.tell([bad_trial])
    assert states(url) == ["COMPLETE", "PRUNED"]


@pytest.mark.parametrize(("pruner", "restarts"), latin([Pruner.ASHA, Pruner.MEDIAN], [False, True]))
def test_repeated_epochs_get_the_decisions_of_the_first_time(url, pruner, restarts):
    """Other trials have improved meanwhile, and the decision to stop may have been lost with the driver."""

    def report(epochs, loss):
        return [sampler.report_loss_and_should_prune("late", epoch, loss) for epoch in epochs]

    options = {"pruner": pruner, "startup": 1, "min_epochs": 2}
    sampler = make_sampler(url, **options)
    good, late, best = (ask(sampler, key) for key in ("good", "late", "best"))
    for epoch in range(1, 10):
        sampler.report_loss_and_should_prune("good", epoch, 1 / epoch)
    sampler.tell([good])
    first = report((1, 2, 3), 0.2)
    assert first == [False, False, False]
    for epoch in range(1, 10):
        sampler.report_loss_and_should_prune("best", epoch, 0.01)
    sampler.tell([best])
    if restarts:
        late.state = TrialState.WAITING
        sampler = make_sampler(url, **options)
        sampler.restore_from_ledger([[good], [late], [best]])
    assert report((1, 2), 0.2) == first[:2]
    stop = next(epoch for epoch in range(3, 10) if report((epoch,), 0.2) == [True])
    assert stop == (6 if pruner is Pruner.ASHA else 3)
    repeated = make_sampler(url, **options)
    late.state = TrialState.WAITING
    repeated.restore_from_ledger([[good], [late], [best]])
    assert repeated.report_loss_and_should_prune("late", stop, 0.2)


def test_divergence_and_failure_are_recorded_with_reasons(url):
    sampler = make_sampler(url)
    for state in (TrialState.DIVERGED, TrialState.FAILED):
        record = ask(sampler, state)
        record.state = state
        sampler.tell([record])
    assert states(url) == ["FAIL", "FAIL"]
    study = load_study(url)
    assert [trial.user_attrs["reason"] for trial in study.trials] == ["diverged", "failed"]


def test_result_of_a_point_is_the_mean_over_ended_seeds(url):
    sampler = make_sampler(url)
    first = ask(sampler, "a")
    second = Record("b", first.parameters, TrialState.RUNNING)
    sampler.tell([first, second])
    assert states(url) == ["RUNNING"]
    second.state, second.loss = TrialState.FINISHED, 1.5
    sampler.tell([first, second])
    assert load_study(url).best_value == 1.0


def test_synchronization_restores_the_state_of_the_ledger(url):
    sampler = make_sampler(url)
    finished, running = ask(sampler, "finished"), ask(sampler, "running")
    sampler.ask()  # never written down
    running.state = TrialState.RUNNING
    restarted = make_sampler(url)
    restarted.restore_from_ledger([[finished], [running]])
    assert states(url) == ["COMPLETE", "RUNNING", "FAIL"]
    running.state = TrialState.FINISHED
    restarted.tell([running])
    assert states(url) == ["COMPLETE", "COMPLETE", "FAIL"]


def test_lost_records_are_written_again(url, tmp_path):
    sampler = make_sampler(url, pruner="asha")
    records = [ask(sampler, f"key{step}") for step in range(3)]
    for record, loss in zip(records, (3.0, 1.0, 2.0), strict=True):
        record.loss, record.losses = loss, {1: loss}
    other_url = f"sqlite:///{tmp_path / 'other_url.sqlite3'}"
    restarted = make_sampler(other_url, pruner="asha")
    restarted.restore_from_ledger([[record] for record in records])
    restarted.restore_from_ledger([[record] for record in records])
    study = load_study(other_url)
    assert [trial.value for trial in study.trials] == [3.0, 1.0, 2.0]
    assert study.trials[1].intermediate_values == {1: 1.0}
    assert restarted.point_of_suggestion(study.trials[2]) == records[2].parameters


def test_later_success_replaces_a_failure(url):
    sampler = make_sampler(url)
    record = ask(sampler, "key")
    record.state = TrialState.FAILED
    sampler.tell([record])
    record.state = TrialState.FINISHED
    make_sampler(url).restore_from_ledger([[record]])
    assert states(url) == ["FAIL", "COMPLETE"]


def test_resumed_sampler_does_not_repeat_points(url):
    first = [ask(make_sampler(url, sampler="random"), f"key{step}").parameters for step in range(3)]
    assert len({str(point) for point in first}) == 3


@pytest.mark.slow
def test_sampler_with_lost_records_does_not_start_over(url, tmp_path):
    """Known points would only come once more: a random sampler that begins anew says the same as before."""
    sampler = make_sampler(url, sampler="random")
    records = [ask(sampler, f"key{step}") for step in range(25)]
    restarted = make_sampler(f"sqlite:///{tmp_path / 'other.sqlite3'}", sampler="random")
    restarted.restore_from_ledger([[record] for record in records])
    following = [ask(restarted, f"new{step}").parameters for step in range(25)]
    assert not {str(point) for point in following} & {str(record.parameters) for record in records}


def test_random_points_lie_in_the_space_and_differ(url):
    sampler = make_sampler(url, sampler="gp")
    points = []
    for _ in range(5):
        points.append(sampler.draw_random_point())
        sampler.reject_suggestion(sampler.ask(points[-1]), "refused")
    assert len({str(point) for point in points}) == 5
    assert all(1e-4 <= point["training.learning_rate"] <= 1 for point in points)
    assert all(point["arm.memory"] in range(5, 41, 5) for point in points)


def test_invalid_records_raise_ledger_error_with_a_remedy(tmp_path):
    tmp_path.joinpath("broken").write_text("not a database " * 100)
    with pytest.raises(LedgerError, match="delete them"):
        make_sampler(f"sqlite:///{tmp_path / 'broken'}")
