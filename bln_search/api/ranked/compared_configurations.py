"""Comparison of the rows of a ranked table, and the row to use."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from bln_search.api.ranked.ranked_rows import RankedRows
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MAX_COMPARED_ROWS, Comparison
from bln_search.ranking.looks import level_of_look
from bln_search.ranking.paired import compare_rows
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior, find_arms_no_better_than_prior
from bln_search.ranking.selection.recommendation import Recommendation, recommend_row
from bln_search.reports.sentences.baseline_check import class_prior_baseline_warning


@dataclass(frozen=True, repr=False)
class ComparedRankedRows(RankedRows):
    """Ranked rows, compared over examples, of which one is recommended."""

    @property
    def best(self) -> RankedConfiguration:
        """The first row. Raises ModelError if no row has a value."""
        if self.board.best_row is None:
            reason = next((row.reason for row in self.board.rows if row.reason), "there is no row")
            raise ModelError(f"no configuration could be measured: {reason}")
        return self[0]

    @property
    def best_batch_independent(self) -> RankedConfiguration | None:
        """The row of lowest loss that is independent of the mini-batch; None if no ranked row is."""
        return next((candidate for candidate in self if candidate.row.rank and candidate.is_independent), None)

    @property
    def as_is(self) -> RankedConfiguration | None:
        """The row of the network before conversion by `same`, at its best mini-batch size.

        None for a network that was not converted by `same`, and if the row has no rank.
        """
        if self.deployed is None:
            return None
        key = self.deployed.configuration, self.deployed.estimate
        rows = (candidate for candidate in self if candidate.row.rank is not None)
        return next((row for row in rows if (row.configuration, row.row.estimate) == key), None)

    @property
    def recommended(self) -> RankedConfiguration:
        """The row to use: of the rows whose expected loss is within the margin, the cheapest independent one.

        It depends on the mini-batch if all these rows do; `best_batch_independent` never does. The row of the network
        before conversion (`as_is`) is recommended if it is one of them: the question is then which row these networks
        should use, and only examples vary.
        Raises ModelError if no row has a value.
        """
        recommendation = self.recommendation
        if recommendation is None:
            return self.as_is or self.best
        return next(candidate for candidate in self if candidate.row.key == recommendation.key)

    def recommended_for(self, *, batch_size: int | None = None) -> RankedConfiguration:
        """The row to use at one mini-batch size, `at_batch_size(batch_size).recommended`; None for the best size.

        Raises:
            ValueError: No row was evaluated at this size.
            ModelError: No row has a value.
        """
        if batch_size is None:
            return self.recommended
        if batch_size not in self._recommended_by_batch_size:
            self._recommended_by_batch_size[batch_size] = self.at_batch_size(batch_size).recommended
        return self._recommended_by_batch_size[batch_size]

    @cached_property
    def _recommended_by_batch_size(self) -> dict[int, RankedConfiguration]:
        return {}

    def with_margin(self, margin: float) -> Self:
        """The table with another margin, the difference of mean losses up to which rows are practically equal.

        Args:
            margin: In the unit of the loss. By default 0.01 nats for a score that says which predictions are correct,
                else 1 % of the lowest loss.

        Raises:
            ValueError: The margin is negative or not finite.
        """
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
            raise ValueError(f"the margin is a number of at least 0, not {margin!r}")
        if self.staged_reading is not None and self.staged_reading.is_decided:
            raise ValueError("stop='decided' has ended this evaluation with another margin: evaluate without stop=")
        return replace(self, margin=margin)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The reasons for `recommended`; None if fewer than two rows could be compared."""
        if self.comparison is None:
            return None
        return recommend_row(
            self.comparison,
            {},
            per_slot=self.per_slot,
            prior_loss=None if self.class_prior is None else self.class_prior.loss,
        )

    @cached_property
    def comparison(self) -> Comparison | None:
        """The best rows, compared over the examples of the split that ranks; None for fewer than two rows or examples.

        With one network, or with `as_is`, it generalizes to other examples; with several networks also to others that
        are trained alike.
        """
        ranked = [row.key for row in self.distinct_board.rows if row.rank is not None]
        if len(ranked) < 2:
            return None
        split = self.board.ranked_on
        compared_keys = self._keys_to_compare(ranked)
        table = self.find_outcome_table_of_rows(compared_keys)
        if table is None:
            return None
        return compare_rows(
            compared_keys,
            table,
            split,
            margin=self.margin,
            level=level_of_look(0) if self.staged_reading is None else self.staged_reading.level,
            not_compared=len(ranked) - len(compared_keys),
            current=None if self.as_is is None else self.as_is.row.key,
            per_slot=self.per_slot,
        )

    def _keys_to_compare(self, ranked: list[RowKey]) -> list[RowKey]:
        """The first rows of the table, and the row of the network before conversion."""
        first = ranked[:MAX_COMPARED_ROWS]
        as_is = None if self.as_is is None else self.as_is.row.key
        return first if as_is is None or as_is in first else [*first[:-1], as_is]

    @property
    def baseline_warning(self) -> str | None:
        """A warning that no row has a lower loss than predicting the class frequencies; None where one has."""
        return (
            None if self._class_prior_comparison is None else class_prior_baseline_warning(self._class_prior_comparison)
        )

    @cached_property
    def _class_prior_comparison(self) -> ArmsNoBetterThanPrior | None:
        return find_arms_no_better_than_prior(self.board, self.class_prior)

    @property
    def analysis(self) -> Analysis:
        """Comparison, recommendation and check against the class prior together, as a study has them."""
        return Analysis(
            comparison=self.comparison,
            class_prior=self.class_prior,
            recommendation=self.recommendation,
            no_better_than_class_prior=self._class_prior_comparison,
        )
