"""Pairs of rows of a study compared over seeds and examples, from bench/results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from bench.support.reporting import load_result
from bln_search.ranking.paired.crossed_anova import ContrastEstimates, ContrastVariances
from bln_search.ranking.paired.table import Floats
from bln_search.ranking.statistics.intervals import ALPHA


class RowPairs:
    """All pairs of some rows of a study.

    Args:
        study: Name of the study, whose files are STUDY.json and STUDY_pairs.json.
        split: Split of the data.
        arm: Arm with its parameters; by default all arms.
        estimate: Population estimate of the rows that read a population value; by default all.

    Raises:
        NotMeasuredError: A file does not exist.
        ValueError: This split has no pairs.
    """

    def __init__(self, study: str, split: str = "test", arm: str | None = None, estimate: str | None = None) -> None:
        document = load_result(f"{study}_pairs")
        if split not in document["splits"]:
            raise ValueError(f"{study} has no pairs on {split}: {document['without'].get(split, 'not compared')}")
        self._saved = document["splits"][split]
        self.examples, self.seeds = int(self._saved["examples"]), int(self._saved["seeds"])
        names = {row: row.rsplit(" ", 3) for row in self._saved["rows"]}
        self.rows = [
            row
            for row, name in names.items()
            if arm in (None, name[0]) and (estimate is None or name[2] in (estimate, "-"))
        ]
        losses = load_result(study)["loss_and_accuracy_by_seed"]
        by_seed = [
            {key: pair[0] for key, pair in losses[row].items() if key.startswith(f"{split} ")} for row in self.rows
        ]
        self._means = np.array([[losses_of_row[key] for key in sorted(losses_of_row)] for losses_of_row in by_seed])

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The two rows of each pair, the better one on the split that ranks first."""
        return [(self.rows[a], self.rows[b]) for a, b in zip(*np.triu_indices(len(self.rows), 1), strict=True)]

    @cached_property
    def estimates(self) -> ContrastEstimates:
        """First row less second row of each pair; p values are corrected over these pairs."""
        first, second = np.triu_indices(len(self.rows), 1)
        differences = self._means[first] - self._means[second]
        of_seeds = differences.var(axis=1, ddof=1) / self.seeds if self.seeds > 1 else np.zeros(len(first))
        variances = ContrastVariances(
            self.seeds,
            differences.mean(axis=1),
            of_seeds,
            [(self._variances_from_examples(first, second), self.examples - 1)],
        )
        return variances.test((first, second), len(self.rows))

    @property
    def different(self) -> list[tuple[str, str]]:
        """The pairs that are significantly different (5 %, corrected): the row of lower loss, the other one."""
        estimates = self.estimates
        return [
            pair if mean < 0 else pair[::-1]
            for pair, mean, p in zip(self.pairs, estimates.mean, estimates.adjusted, strict=True)
            if p < ALPHA
        ]

    def _variances_from_examples(self, first: Iterable[int], second: Iterable[int]) -> Floats:
        places = [self._saved["rows"].index(row) for row in self.rows]
        lines = [line.split() for line in self._saved["variance_from_examples"]["new trainings"]]
        return np.array(
            [float(lines[places[a]][places[b] - places[a] - 1]) for a, b in zip(first, second, strict=True)]
        )
