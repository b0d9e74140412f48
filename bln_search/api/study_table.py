"""Scores of rows under seeds from the trials of a study of Optuna, which is not imported for that."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bln_search.api.score_table import ScoreTable, describe_cell, table_of_cells
from bln_search.core.errors import DataError
from bln_search.ranking.looks import LEVEL_AFTER_NEWCOMERS
from bln_search.ranking.statistics.intervals import ALPHA

Row = tuple[tuple[str, str, str], ...]
"""Name, short text and `repr` of the value of each parameter or user attribute that identifies a row."""

PRUNED_BY_SEEDS = "bln_search:pruned_by_seeds"
"""User attribute of a study whose pruner has looked at the scores, and spent a part of the error rate."""

_STATES = {"PRUNED": "was pruned", "FAIL": "failed", "RUNNING": "is running", "WAITING": "is waiting"}
_MAX_REASONS = 5
_MAX_DIGITS = 8
"""Number of characters from which numbers are rounded in names of rows."""


@dataclass(frozen=True)
class StudyReading:
    """How the trials of a study are read as a table.

    Attributes:
        seeds: Parameter or user attribute that holds the seed; None where each trial reports the score of each seed as
            the intermediate value of that step.
        arms: Parameters and user attributes that identify a row; None for all parameters but the seed.
        target: The score of a completed trial; None for its objective value.
        lower_is_better: Whether lower scores are better; None for the direction of the study.
        repeated: Whether different scores of a row under one seed are an error or averaged.
    """

    seeds: str | None = "seed"
    arms: Sequence[str] | None = None
    target: Callable[[Any], float] | None = None
    lower_is_better: bool | None = None
    repeated: Literal["raise", "mean"] = "raise"

    def read(self, study: Any) -> ScoreTable:
        """The table of the study.

        A row that lacks a seed of another row is left out if one of its trials is not completed.

        Raises:
            DataError: The scores cannot be compared.
        """
        if len(study.directions) > 1 and (self.target is None or self.lower_is_better is None):
            raise DataError(
                f"the study has {len(study.directions)} objectives: rows are compared by one score. "
                "bln_search.integrations.optuna.compare has target= and direction= for it"
            )
        trials = _TrialsOfRows()
        for trial in study.get_trials(deepcopy=False):
            self._add(trial, trials)
        names = trials.name_rows()
        left_out = {names[row]: reason for row, reason in trials.describe_incomplete_rows().items()}
        complete = [name for name in names.values() if name not in left_out]
        if left_out and len(complete) < 2:
            reasons = "; ".join(f"{name!r}: {reason}" for name, reason in list(left_out.items())[:_MAX_REASONS])
            raise DataError(
                f"{f'only {complete[0]!r}' if complete else 'no row'} has all seeds, and at least two rows are "
                f"needed to compare. {len(left_out)} rows lack seeds: {reasons}"
            )
        return table_of_cells(
            [
                ((names[row], seed, None), self._single_score(names[row], seed, scores))
                for (row, seed), scores in trials.scores.items()
                if names[row] not in left_out
            ],
            lower_is_better=study.direction.name == "MINIMIZE"
            if self.lower_is_better is None
            else self.lower_is_better,
            left_out=left_out,
            level=LEVEL_AFTER_NEWCOMERS if PRUNED_BY_SEEDS in study.user_attrs else ALPHA,
        )

    def _add(self, trial: Any, trials: _TrialsOfRows) -> None:
        if trial.state.name == "COMPLETE":
            row = self._row_of(trial)
            for seed, score in self._scores_of(trial).items():
                trials.scores[row, seed].append((trial.number, score))
            if self.seeds is None:
                trials.remarks[row].append((None, f"trial {trial.number} has {len(trial.intermediate_values)} seeds"))
            return
        try:
            row, seed = self._row_of(trial), self._seed_of(trial)
        except DataError:
            return  # it waits, or ended before it had a row and a seed
        trials.remarks[row].append((seed, f"trial {trial.number} {_STATES[trial.state.name]}"))

    def _row_of(self, trial: Any) -> Row:
        names = sorted(name for name in trial.params if name != self.seeds) if self.arms is None else self.arms
        values = [(name, _value_of(trial, name, "arms= names what identifies a row")) for name in names]
        return tuple((name, _shorten(value), repr(value)) for name, value in values)

    def _seed_of(self, trial: Any) -> Hashable:
        if self.seeds is None:
            return None
        seed = _value_of(trial, self.seeds, "seeds= (seed= of bln_search.compare) names the one that holds the seed")
        if not isinstance(seed, Hashable):
            raise DataError(f"trial {trial.number} has the seed {seed!r}: a seed is a number or a text")
        return seed

    def _scores_of(self, trial: Any) -> Mapping[Hashable, float]:
        """Scores of a completed trial by seed."""
        if self.seeds is not None:
            return {self._seed_of(trial): self._score_of(trial)}
        if not trial.intermediate_values:
            raise DataError(
                f"trial {trial.number} has reported no score: call trial.report(score, step=seed) for each seed, or "
                "name the parameter or user attribute that holds the seed in seeds="
            )
        scores: Mapping[Hashable, float] = trial.intermediate_values
        return scores

    def _score_of(self, trial: Any) -> float:
        score = trial.value if self.target is None else self.target(trial)
        try:
            return float(score)
        except (TypeError, ValueError):
            raise DataError(f"target= gives {score!r} for trial {trial.number}: a score is a number") from None

    def _single_score(self, name: str, seed: Hashable, scores: Sequence[tuple[int, float]]) -> float:
        values = [score for _, score in scores]
        if len(set(values)) == 1:
            return values[0]
        if self.repeated == "mean":
            return sum(values) / len(values)
        raise DataError(
            f"{describe_cell((name, seed, None))} has two scores, of trials {scores[0][0]} and {scores[1][0]}: each "
            "row has one score under each seed. bln_search.integrations.optuna.compare tells them apart by a further "
            "parameter in arms=, or averages them with repeated='mean'"
        )


@dataclass(frozen=True)
class _TrialsOfRows:
    """Trials of each row.

    Attributes:
        scores: Number and score of each completed trial, by row and seed.
        remarks: Seed, None for all seeds, and a clause for each trial that may explain why its row lacks a seed.
    """

    scores: dict[tuple[Row, Hashable], list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    remarks: dict[Row, list[tuple[Hashable, str]]] = field(default_factory=lambda: defaultdict(list))

    def describe_incomplete_rows(self) -> dict[Row, str]:
        """Why rows are left out: they lack a seed of another row, and a trial explains it."""
        seeds = {seed for _, seed in self.scores}
        reasons = {}
        for row, remarks in self.remarks.items():
            missing = {seed for seed in seeds if (row, seed) not in self.scores}
            if missing:
                reasons[row] = min(remarks, key=lambda remark: remark[0] not in missing)[1]
        return reasons

    def name_rows(self) -> dict[Row, str]:
        """The name of each row: with short texts, unless two rows would have the same name."""
        rows = dict.fromkeys([*(row for row, _ in self.scores), *self.remarks])
        short = {row: ", ".join(f"{name}={text}" for name, text, _ in row) for row in rows}
        counts = Counter(short.values())
        return {
            row: text if counts[text] == 1 else ", ".join(f"{name}={value}" for name, _, value in row)
            for row, text in short.items()
        }


def _shorten(value: Any) -> str:
    text = str(value)
    return f"{value:.6g}" if isinstance(value, float) and len(text) > _MAX_DIGITS else text


def _value_of(trial: Any, name: str, hint: str) -> Any:
    for values in (trial.params, trial.user_attrs):
        if name in values:
            return values[name]
    raise DataError(f"trial {trial.number} has no parameter and no user attribute {name!r}: {hint}")
