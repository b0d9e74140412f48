"""Rows that are equal by construction are joined."""

from __future__ import annotations

from dataclasses import replace

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from service.results.equal_rows import make_distinct_rows


def row(code, batch_size, loss=0.5, **values):
    metrics = {} if loss is None else {Split.VALIDATION: SplitMetrics(MeanStd(loss, 0.1), MeanStd(0.9, 0.01))}
    state = EvaluationState.UNDEFINED if loss is None else EvaluationState.MEASURED
    made = LeaderboardRow(1, "bn", InferenceConfiguration(code), "frozen", batch_size, state, 2, metrics, None)
    return replace(made, **values)


def joined(rows, collapse=True):
    groups = make_distinct_rows(rows, Split.VALIDATION, collapse=collapse).list_groups()
    return [(str(group.row.configuration), group.batch_sizes) for group in groups]


def test_deterministic_rows_are_joined_and_others_are_not():
    rows = [row("TT--", 25), row("FF--", 5), row("TT--", 5), row("FF--", 25), row("TT--", 100, 0.5 + 1e-8)]
    assert joined(rows) == [("TT--", (5, 25, 100)), ("FF--", (5,)), ("FF--", (25,))]
    assert len(joined(rows, collapse=False)) == 5


def test_rows_that_are_not_equal_stay_apart():
    assert joined([row("TT--", 5), row("TT--", 25, 0.6)]) == [("TT--", (5,)), ("TT--", (25,))]
    assert len(joined([row("TT--", 5), row("TT--", 25, seeds=1)])) == 2
    assert len(joined([row("TT--", 5), row("TT--", 25, arm="other")])) == 2
    assert len(joined([row("TT--", 5), row("TT--", 25, estimate="epoch")])) == 2
    assert len(joined([row("TT--", 5), row("TT--", 25, None)])) == 2


def test_rows_that_read_populations_of_slots_are_not_joined():
    rows = [row("TTTT", 5), row("TTTT", 25), row("TTFF", 5), row("TTFF", 25)]
    groups = make_distinct_rows(rows, Split.VALIDATION, collapse=True, per_slot=True).list_groups()
    assert [group.batch_sizes for group in groups] == [(5,), (25,), (5, 25)]


def test_rows_without_a_value_are_joined_too():
    assert joined([row("TT--", 5, None), row("TT--", 25, None)]) == [("TT--", (5, 25))]


def test_group_contains_the_key_of_each_of_its_rows():
    rows = [row("TT--", 5), row("TT--", 25)]
    (group,) = make_distinct_rows(rows, Split.VALIDATION, collapse=True).list_groups()
    assert all(group.contains(member.key) for member in rows)
    assert not group.contains(row("TT--", 50).key)
    assert not group.contains(row("FF--", 5).key)


def test_part_of_the_rows_is_taken_by_position():
    rows = make_distinct_rows([row("FF--", size) for size in (1, 2, 3, 4)], Split.VALIDATION, collapse=True)
    assert [group.row.batch_size for group in rows.list_groups(1, 3)] == [2, 3]
    assert len(rows) == 4
