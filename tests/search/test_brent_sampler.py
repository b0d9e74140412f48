"""Brent's points of an arm wait for the results before them, and follow again from the results of a ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from pydantic import TypeAdapter
from scipy.optimize import minimize_scalar

from bln_search.core.errors import LedgerError
from bln_search.core.states import TrialState
from bln_search.search.brent_sampler import WORST, BrentSampler
from bln_search.specs.sections.search import SearchSpec
from bln_search.specs.sections.space import Space

RATE = "training.learning_rate"
SPACE = TypeAdapter(Space).validate_python({RATE: {"kind": "float", "low": 1e-6, "high": 1e-2, "log": True}})
SPEC = SearchSpec(sampler="brent", trials=10)


@dataclass
class Record:
    key: str
    parameters: dict
    loss: float | None = None
    state: TrialState = TrialState.FINISHED

    def objective_value(self, _objective):
        return self.loss


def loss_of(rate):
    return abs(math.log10(rate) + 3.3) ** 1.5 + 0.2 * math.sin(5 * math.log10(rate))


def ask(sampler, number):
    point = sampler.ask()
    sampler.accept_suggestion(point, f"key{number}")
    return Record(f"key{number}", sampler.point_of_suggestion(point))


def search(sampler, count, first=0):
    records = []
    for number in range(first, first + count):
        record = ask(sampler, number)
        record.loss = loss_of(record.parameters[RATE])
        sampler.tell([record])
        records.append(record)
    return records


def rates(records):
    return [record.parameters[RATE] for record in records]


def scipy_rates(loss=loss_of, count=10):
    points = []
    minimize_scalar(
        lambda x: points.append(10.0 ** float(x)) or loss(points[-1]),
        bounds=(-6, -2),
        method="bounded",
        options={"maxiter": count},
    )
    return points


def test_points_of_a_logarithmic_dimension_are_those_of_scipy_over_log10():
    assert rates(search(BrentSampler(SPEC, SPACE), 10)) == scipy_rates()


def test_points_of_a_linear_dimension_are_those_of_scipy():
    space = TypeAdapter(Space).validate_python({RATE: {"kind": "float", "low": 0.1, "high": 0.9}})
    points = []
    minimize_scalar(
        lambda x: points.append(float(x)) or loss_of(x), bounds=(0.1, 0.9), method="bounded", options={"maxiter": 10}
    )
    assert rates(search(BrentSampler(SPEC, space), 10)) == points


@pytest.mark.parametrize("known", range(11))
def test_search_resumes_from_its_results(known):
    records = search(BrentSampler(SPEC, SPACE), known)
    resumed = BrentSampler(SPEC, SPACE)
    resumed.restore_from_ledger([[record] for record in records])
    assert rates(records + search(resumed, 10 - known, first=known)) == scipy_rates()


def test_next_point_waits_for_the_result_of_the_last():
    sampler = BrentSampler(SPEC, SPACE)
    first = ask(sampler, 0)
    assert sampler.is_waiting_for_result
    assert sampler.ask() is None
    sampler.tell([Record("another", first.parameters, 1.0)])
    first.state = TrialState.RUNNING
    sampler.tell([first])
    assert sampler.is_waiting_for_result
    first.state, first.loss = TrialState.FINISHED, 1.0
    sampler.tell([first])
    assert not sampler.is_waiting_for_result
    assert sampler.ask() != first.parameters


def test_resumed_search_waits_for_an_open_trial():
    done = search(BrentSampler(SPEC, SPACE), 2)
    opened = BrentSampler(SPEC, SPACE)
    opened.restore_from_ledger([[record] for record in done])
    running = ask(opened, 2)
    running.state = TrialState.WAITING
    resumed = BrentSampler(SPEC, SPACE)
    resumed.restore_from_ledger([[record] for record in [*done, running]])
    assert resumed.ask() is None
    running.state, running.loss = TrialState.FINISHED, loss_of(running.parameters[RATE])
    resumed.tell([running])
    assert rates([*done, running, *search(resumed, 7, first=3)]) == scipy_rates()


@pytest.mark.parametrize("state", [TrialState.DIVERGED, TrialState.FINISHED])
def test_result_without_value_counts_as_the_worst(state):
    sampler = BrentSampler(SPEC, SPACE)
    records = [ask(sampler, 0)]
    records[0].state, records[0].loss = state, None
    sampler.tell([records[0]])
    worst = records[0].parameters[RATE]
    records += search(sampler, 9, first=1)
    assert rates(records) == scipy_rates(lambda rate: WORST if rate == worst else loss_of(rate))


def test_failed_trial_blocks_the_search_until_it_has_a_result():
    sampler = BrentSampler(SPEC, SPACE)
    record = ask(sampler, 0)
    record.state = TrialState.FAILED
    sampler.tell([record])
    assert sampler.is_blocked_by_failed_trial
    assert sampler.ask() is None
    resumed = BrentSampler(SPEC, SPACE)
    record.state = TrialState.WAITING
    resumed.restore_from_ledger([[record]])
    assert not resumed.is_blocked_by_failed_trial
    record.state, record.loss = TrialState.FINISHED, loss_of(record.parameters[RATE])
    resumed.tell([record])
    assert rates([record, *search(resumed, 9, first=1)]) == scipy_rates()


def test_rejected_point_counts_as_the_worst_also_after_a_resume():
    sampler = BrentSampler(SPEC, SPACE)
    records = search(sampler, 2)
    rejected = sampler.ask()
    sampler.reject_suggestion(rejected, "no arm takes it")
    records += search(sampler, 3, first=2)
    resumed = BrentSampler(SPEC, SPACE)
    resumed.restore_from_ledger([[record] for record in records])
    assert resumed.ask() == rejected
    resumed.reject_suggestion(rejected, "no arm takes it")
    assert resumed.ask() == sampler.ask()


def test_points_of_another_machine_may_differ_in_their_last_digits():
    records = search(BrentSampler(SPEC, SPACE), 4)
    for record in records:
        record.parameters = {RATE: math.nextafter(record.parameters[RATE], 1)}
    resumed = BrentSampler(SPEC, SPACE)
    resumed.restore_from_ledger([[record] for record in records])
    assert resumed.ask() == {RATE: pytest.approx(scipy_rates()[4], rel=1e-12)}


def test_stored_points_that_do_not_follow_from_their_results_are_an_error():
    records = search(BrentSampler(SPEC, SPACE), 6)
    records[3].loss += 5
    resumed = BrentSampler(SPEC, SPACE)
    resumed.restore_from_ledger([[record] for record in records])
    with pytest.raises(LedgerError, match="do not follow from their results"):
        for _ in range(10):
            resumed.reject_suggestion({RATE: records[5].parameters[RATE]}, "a repeated point")
