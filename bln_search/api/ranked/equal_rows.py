"""Rows that are the same at every inference mini-batch size, because they do not use the mini-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import EvaluationKey, RowKey
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
        if len(keys) > 1 and _have_equal_states(boards, keys) and all(_have_equal_losses(of, keys) for of in outcomes):
            sizes[keys[0]] = tuple(key.batch_size for key in keys)
            dropped.update(keys[1:])
    distinct = []
    for board in boards:
        kept = board.restrict_to_rows(row for row in board.rows if row.key not in dropped) if dropped else board
        of_rows = {row.key: sizes.get(row.key, (row.batch_size,)) for row in kept.rows}
        distinct.append(DistinctRowsOfBoard(kept, of_rows))
    return distinct


def _have_equal_states(boards: Sequence[Leaderboard], keys: Sequence[RowKey]) -> bool:
    return all(len({(row.state, row.reason) for row in board.rows if row.key in keys}) <= 1 for board in boards)


def _have_equal_losses(outcomes: OutcomesByKey, keys: Sequence[RowKey]) -> bool:
    """Whether losses are equal but for rounding, on every split of one network and condition."""
    for split in {key.split for key in outcomes}:
        of_sizes = [outcomes.get(EvaluationKey(key.configuration, key.estimate, key.batch_size, split)) for key in keys]
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
