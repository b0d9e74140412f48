"""A leaderboard that is updated row by row equals one of all results, bit for bit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import build_leaderboard_from_results, make_updated_leaderboard
from bln_search.ranking.row_results import SeedResult

SEEDS = 3
VALUES = st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 0.7])
"""Few values, so that rows share ranks."""


@st.composite
def trials(draw):
    """The results of one trial by row: on several splits, some under a condition, some without a value."""
    arm, point = draw(st.sampled_from(["bn", "bln"])), f'{{"x": {draw(st.integers(0, 2))}}}'
    seed, condition = draw(st.integers(0, SEEDS - 1)), draw(st.sampled_from(["", "noise"]))
    results = {}
    for code in draw(st.sets(st.sampled_from(["FFFF", "TTFF", "TTTT"]), min_size=1)):
        key = RowKey(arm, point, InferenceConfiguration(code), None, 25)
        state = draw(st.sampled_from([*[EvaluationState.MEASURED] * 5, *EvaluationState]))
        for split in draw(st.sets(st.sampled_from(list(Split)), min_size=1)):
            for name in {"", condition}:
                is_measured = state is EvaluationState.MEASURED
                values = (draw(VALUES), draw(VALUES), None) if is_measured else (None, None, "because")
                metrics = {"f1": draw(VALUES)} if is_measured else {}
                results.setdefault(key, []).append(SeedResult(seed, split, name, state, *values, metrics))
    return seed, results


def merge(batches):
    merged = {}
    for results in batches:
        for key, of_row in results.items():
            merged.setdefault(key, []).extend(of_row)
    return merged


@settings(max_examples=60, deadline=None)
@given(st.lists(trials(), min_size=1, max_size=12), st.sampled_from([Split.VALIDATION, Split.TEST]), st.data())
def test_updated_leaderboard_equals_that_of_all_results(batches, split, data):
    by_identity = {}
    for seed, results in batches:  # one trial for each arm, point and seed
        by_identity[next(iter(results))[:2], seed] = results
    batches = list(by_identity.values())
    start = data.draw(st.integers(0, len(batches)))
    board = build_leaderboard_from_results(merge(batches[:start]), split, SEEDS)
    while start < len(batches):
        end = data.draw(st.integers(start + 1, len(batches)))
        points = {key[:2] for results in batches[start:end] for key in results}
        present = merge(batches[:end])
        before = board.rows
        copies = [row.__dict__.copy() for row in before]
        board = make_updated_leaderboard(
            board, points, {key: of_row for key, of_row in present.items() if key[:2] in points}, SEEDS
        )
        expected = build_leaderboard_from_results(present, split, SEEDS)
        assert board == expected
        assert [row.point_digits for row in board.rows] == [row.point_digits for row in expected.rows]
        assert [row.__dict__ for row in before] == copies  # readers of the earlier leaderboard keep it
        start = end
