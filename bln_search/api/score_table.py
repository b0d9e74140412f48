"""Scores of rows under seeds, from data frames, dictionaries and arrays."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError
from bln_search.ranking.statistics.intervals import ALPHA

Floats = NDArray[np.float64]
Cell = tuple[str, Hashable, Hashable]
"""Name of the row, seed and example of a score; the example is None where a seed has one score."""

_ROW_COLUMNS = "row", "arm"
NAMES_OF_AN_ARRAY = "names= belongs to an array: the rows of this table have names already"


@dataclass(frozen=True)
class ScoreTable:
    """The score of every row under every seed, of each example or in total.

    Attributes:
        names: Name of each row.
        seeds: Name of each seed, for messages.
        scores: Scores, (S seeds, K rows, N examples); N = 1 without examples.
        lower_is_better: Whether lower scores are better; None where the table does not say.
        left_out: Why each row that is not in the table was left out, by its name.
        level: Significance level of the verdicts.
    """

    names: Sequence[str]
    seeds: Sequence[Hashable]
    scores: Floats
    lower_is_better: bool | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    level: float = ALPHA

    def __post_init__(self) -> None:
        """Raise DataError for scores that cannot be compared."""
        repeated = [name for name in dict.fromkeys(self.names) if self.names.count(name) > 1]
        if repeated:
            raise DataError(f"several rows have the name {repeated[0]!r}: give each row a name of its own")
        if len(self.names) < 2:
            raise DataError(f"the table has {len(self.names)} rows: at least two are needed to compare")
        if self.scores.size == 0 or self.scores.shape[0] == self.scores.shape[2] == 1:
            raise DataError(
                f"each row has {self.scores.shape[0]} seeds and {self.scores.shape[2]} scores under a seed: give the "
                "scores of at least two seeds, or of at least two examples"
            )
        invalid = np.argwhere(~np.isfinite(self.scores))
        if len(invalid):
            seed, row, example = invalid[0]
            place = describe_cell((self.names[row], self.seeds[seed], example if self.scores.shape[2] > 1 else None))
            raise DataError(
                f"{place} has the score {self.scores[seed, row, example]} ({len(invalid)} of {self.scores.size} scores "
                "are missing or not finite): add the score, or leave the row or the seed out"
            )


def read_score_table(table: Any, names: Iterable[str] | None) -> ScoreTable:
    """The scores of a table in any of the forms of `bln_search.compare`, whose arguments these are.

    Raises:
        DataError: The scores cannot be compared.
    """
    is_named = isinstance(table, Mapping) or is_instance_of(table, "pandas", "DataFrame")
    if is_named and names is not None:
        raise DataError(NAMES_OF_AN_ARRAY)
    if isinstance(table, Mapping):
        return _read_mapping(table)
    return _read_frame(table) if is_named else _read_array(table, names)


def is_instance_of(value: Any, package: str, name: str) -> bool:
    """Whether the value is of a class of a package, which is not imported for that."""
    imported = sys.modules.get(package)
    return imported is not None and isinstance(value, getattr(imported, name))


def _to_floats(values: Any, place: str) -> Floats:
    try:
        return np.ma.asarray(values, np.float64).filled(np.nan)  # a masked score is missing
    except (TypeError, ValueError) as error:
        raise DataError(f"{place} cannot be read as numbers, or have unequal lengths: {error}") from None


def _read_array(array: Any, names: Iterable[str] | None) -> ScoreTable:
    scores = _to_floats(array, "the scores")
    if scores.ndim not in {2, 3}:
        raise DataError(f"an array of scores is (seeds, rows) or (seeds, rows, examples); this one is {scores.shape}")
    if names is None:
        raise DataError(f"an array needs names=, one for each of its {scores.shape[1]} rows (its second axis)")
    listed = [str(name) for name in names]
    if len(listed) != scores.shape[1]:
        raise DataError(
            f"{len(listed)} names for an array of shape {scores.shape}: its second axis is that of the rows"
        )
    return _table_of_array(listed, scores)


def _table_of_array(names: Sequence[str], scores: Floats) -> ScoreTable:
    """The table of scores (seeds, rows) or (seeds, rows, examples)."""
    return ScoreTable(names, range(len(scores)), scores if scores.ndim == 3 else scores[..., None])


def _read_mapping(table: Mapping[Any, Any]) -> ScoreTable:
    indexes = [values.index for values in table.values() if is_instance_of(values, "pandas", "Series")]
    if not all(index.equals(indexes[0]) for index in indexes):
        raise DataError(
            "the series of the rows have different indexes: give a data frame with seeds as its index, so that scores "
            "are paired by seed"
        )
    rows = {name: _to_floats(values, f"the scores of row {str(name)!r}") for name, values in table.items()}
    shapes = {name: scores.shape for name, scores in rows.items()}
    first = next(iter(shapes), None)
    for name, shape in shapes.items():
        if len(shape) not in {1, 2} or shape != shapes[first]:
            raise DataError(
                f"row {str(name)!r} has scores of shape {shape}, row {str(first)!r} {shapes[first]}: every row needs "
                "the same seeds, as (seeds,) or (seeds, examples)"
            )
    if not rows:
        raise DataError("the table has no rows: at least two are needed to compare")
    return _table_of_array([str(name) for name in rows], np.stack(list(rows.values()), axis=1))


def _read_frame(frame: Any) -> ScoreTable:
    columns = list(frame.columns)
    if not {"seed", "score"} & set(columns):
        return _read_wide_frame(frame)
    label = next((name for name in _ROW_COLUMNS if name in columns), "row")
    labels = [label, "seed", *(["example"] if "example" in columns else [])]
    missing = [name for name in (*labels, "score") if name not in columns]
    if missing:
        raise DataError(
            f"the column {missing[0]!r} is missing: a long table has the columns row (or arm), seed and score, and "
            "example if there are several; a wide one has seeds as its index and rows as its columns"
        )
    if len(columns) > len(labels) + 1:
        other = next(name for name in columns if name not in {*labels, "score"} or columns.count(name) > 1)
        raise DataError(
            f"the column {other!r} is none of {', '.join(labels)} and score: leave it out, or make it part of the "
            "names of the rows"
        )
    if frame[labels].isna().any(axis=None):
        raise DataError(f"a line of the table has no {' or no '.join(labels)}: name the row and the seed of each score")
    cells = zip(*(frame[name].tolist() for name in labels), strict=True)
    return table_of_cells(
        ((str(cell[0]), cell[1], cell[2] if len(cell) > 2 else None), score)
        for cell, score in zip(cells, frame["score"].tolist(), strict=True)
    )


def _read_wide_frame(frame: Any) -> ScoreTable:
    if frame.index.nlevels > 1:
        raise DataError(
            "the index of a wide table is the seed alone: give a table with several labels in long form, with the "
            "columns row, seed, example and score"
        )
    repeated = frame.index[frame.index.duplicated()]
    if len(repeated):
        raise DataError(f"the seed {repeated[0]} has two lines: each row has one score under each seed")
    scores = _to_floats(frame, "the scores")
    return ScoreTable([str(name) for name in frame.columns], frame.index.tolist(), scores[:, :, None])


def table_of_cells(
    scores: Iterable[tuple[Cell, Any]],
    *,
    lower_is_better: bool | None = None,
    left_out: Mapping[str, str] | None = None,
    level: float = ALPHA,
) -> ScoreTable:
    """The table with these cells, each of which is needed once.

    Raises:
        DataError: A cell is missing or repeated, or the scores cannot be compared.
    """
    cells: dict[Cell, Any] = {}
    for cell, score in scores:
        if cell in cells:
            raise DataError(f"{describe_cell(cell)} has two scores: each row has one score under each seed")
        cells[cell] = score
    names = list(dict.fromkeys(row for row, _, _ in cells))
    seeds = list(dict.fromkeys(seed for _, seed, _ in cells))
    examples = list(dict.fromkeys(example for _, _, example in cells))
    needed = list(product(seeds, names, examples))
    missing = [(row, seed, example) for seed, row, example in needed if (row, seed, example) not in cells]
    if missing:
        raise DataError(
            f"{describe_cell(missing[0])} has no score ({len(missing)} of {len(needed)} are missing): every row needs "
            "the same seeds and examples. Add the scores, or leave the row or the seed out"
        )
    values = _to_floats([cells[row, seed, example] for seed, row, example in needed], "the scores")
    values = values.reshape(len(seeds), len(names), len(examples))
    return ScoreTable(names, seeds, values, lower_is_better, left_out or {}, level)


def describe_cell(cell: Cell) -> str:
    """The row, the seed and the example, if there is one, in words."""
    row, seed, example = cell
    return f"row {row!r}, seed {seed}" + ("" if example is None else f", example {example}")
