"""Rows that are the same at every inference mini-batch size, because they do not use the mini-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import EvaluationKey, ExampleOutcomes, RowKey
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.selection.row_cost import is_deterministic_configuration

_RELATIVE, _ABSOLUTE = 1e-3, 1e-5
"""Differences of losses up to which they are equal but for rounding: mini-batches change the order of summation."""

OutcomesByKey = Mapping[EvaluationKey, ExampleOutcomes]
SizesByKey = Mapping[RowKey, tuple[int, ...]]


@dataclass(frozen=True)
class DistinctRowsOfBoard:
    """A leaderboard in which rows that are equal at all mini-batch sizes stand once.

    Attributes:
        board: The distinct rows, ranked among themselves; equal rows have the smallest of their sizes.
        batch_sizes: The sizes of each distinct row, in increasing order.
    """

    board: Leaderboard
    batch_sizes: SizesByKey


def merge_rows_equal_at_all_sizes(
    boards: Sequence[Leaderboard], outcomes: Sequence[OutcomesByKey], *, per_slot: bool
) -> list[DistinctRowsOfBoard]:
    """The distinct rows of each condition: rows that are independent of the mini-batch and equal at all sizes once.

    Args:
        boards: The leaderboard of each validation condition; rows are merged if they are equal in all of them.
        outcomes: Outcomes of every network in every condition.
        per_slot: Whether rows may depend on the position in the mini-batch.
    """
    groups: dict[tuple[InferenceConfiguration, str | None], list[LeaderboardRow]] = {}
    for row in boards[0].rows:
        if is_deterministic_configuration(row.configuration, per_slot=per_slot):
            groups.setdefault((row.configuration, row.estimate), []).append(row)
    sizes: dict[RowKey, tuple[int, ...]] = {}
    dropped: set[RowKey] = set()
    for members in groups.values():
        keys = sorted((row.key for row in members), key=lambda key: key.batch_size)
        if (
            len(keys) > 1
            and _have_equal_states_in_all_boards(boards, keys)
            and _have_equal_losses_on_all_splits(outcomes, keys)
        ):
            sizes[keys[0]] = tuple(key.batch_size for key in keys)
            dropped.update(keys[1:])
    return [_drop_repeated_rows(board, sizes, dropped) for board in boards]


def _drop_repeated_rows(board: Leaderboard, sizes: SizesByKey, dropped: set[RowKey]) -> DistinctRowsOfBoard:
    kept = board.restrict_to_rows(row for row in board.rows if row.key not in dropped) if dropped else board
    return DistinctRowsOfBoard(kept, {row.key: sizes.get(row.key, (row.batch_size,)) for row in kept.rows})


def _have_equal_states_in_all_boards(boards: Sequence[Leaderboard], keys: Sequence[RowKey]) -> bool:
    for board in boards:
        states = {(row.state, row.reason) for row in board.rows if row.key in keys}
        if len(states) > 1:
            return False
    return True


def _have_equal_losses_on_all_splits(outcomes: Sequence[OutcomesByKey], keys: Sequence[RowKey]) -> bool:
    """Whether losses are equal but for rounding, on every split of every network and condition."""
    for by_key in outcomes:
        for split in {key.split for key in by_key}:
            of_sizes = [
                by_key.get(EvaluationKey(key.configuration, key.estimate, key.batch_size, split)) for key in keys
            ]
            measured = [outcome.losses for outcome in of_sizes if outcome is not None]
            if len(measured) not in (0, len(keys)):
                return False
            if any(not _are_losses_close(measured[0], losses) for losses in measured[1:]):
                return False
    return True


def _are_losses_close(losses: NDArray[np.floating], other_losses: NDArray[np.floating]) -> bool:
    return losses.shape == other_losses.shape and np.allclose(
        losses, other_losses, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True
    )
