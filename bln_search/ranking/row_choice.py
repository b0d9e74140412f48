"""Finds the row of a leaderboard that a person describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ExportError
from bln_search.core.states import EvaluationState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.specs.sections.space import format_encoded_point

RECOMMENDED, BEST = "recommended", "best"
_MAX_LISTED_ROWS = 20


@dataclass(frozen=True)
class RowQuery:
    """The row that a person asks for; None in an attribute: any value.

    Attributes:
        configuration: Inference configuration; None for the first row that has the other values.
        estimate: Population estimate.
        arm: Label of the arm.
        batch_size: Inference mini-batch size.
        parameters: Parameters of the point, as people read them or as JSON. Fewer digits may match several points.
    """

    configuration: InferenceConfiguration | None = None
    estimate: str | None = None
    arm: str | None = None
    batch_size: int | None = None
    parameters: str | None = None

    def matches(self, row: LeaderboardRow) -> bool:
        """Whether the row has every value."""
        return (
            self.configuration in (None, row.configuration)
            and self.estimate in (None, row.estimate)
            and self.arm in (None, row.arm)
            and self.batch_size in (None, row.batch_size)
            and self.parameters in (None, row.parameters, row.point, format_encoded_point(row.point))
        )


@dataclass(frozen=True)
class RowWording:
    """How messages name the values of a row.

    Attributes:
        names: Names of the values that distinguish rows of one configuration.
        describe: Returns a row in one line.
        recommendation: What to do if no row is recommended.
    """

    names: str
    describe: Callable[[LeaderboardRow], str]
    recommendation: str


def _describe_row(row: LeaderboardRow) -> str:
    estimate = f", estimate {row.estimate}" if row.estimate else ""
    parameters = f", parameters {row.parameters}" if row.point else ""
    return f"{row.configuration}, arm {row.arm}, batch_size {row.batch_size}{estimate}{parameters}"


FIELD_WORDING = RowWording(
    names="`estimate`, `arm`, `batch_size` or `parameters`",
    describe=_describe_row,
    recommendation="the configuration `best`, or four letters such as TTFF",
)
"""The names of the fields of a request."""


def get_matching_row(board: Leaderboard, choice: RowQuery, wording: RowWording = FIELD_WORDING) -> LeaderboardRow:
    """Return the measured row that matches; the first one if no configuration is given.

    Raises ExportError if no row, or several rows, match; the message lists rows.
    """
    if not board.rows:
        raise ExportError("the study has no result yet")
    matching = [row for row in board.rows if choice.matches(row)]
    if not matching:
        raise _make_no_such_row_error(board, choice, wording)
    measured = [row for row in matching if row.state is EvaluationState.MEASURED]
    if not measured:
        raise ExportError(f"this row is {matching[0].state}, so it cannot be exported: {matching[0].reason}")
    if choice.configuration is not None and len(measured) > 1:
        raise ExportError(
            f"{len(measured)} rows are {choice.configuration}; choose with {wording.names}:\n"
            f"{_list_rows(measured, wording)}"
        )
    return measured[0]


def get_recommended_row(
    board: Leaderboard, analysis: Analysis | None, wording: RowWording = FIELD_WORDING
) -> LeaderboardRow:
    """Return the row that the analysis recommends. Raises ExportError without a recommendation."""
    if analysis is None or analysis.recommendation is None:
        reason = "it has no analysis yet" if analysis is None else analysis.reason
        raise ExportError(f"nothing can be recommended: {reason}; use {wording.recommendation}")
    return next(row for row in board.rows if row.key == analysis.recommendation.key)


def _make_no_such_row_error(board: Leaderboard, choice: RowQuery, wording: RowWording) -> ExportError:
    arms = sorted({row.arm for row in board.rows})
    if choice.arm is not None and choice.arm not in arms:
        return ExportError(f"the study has no arm {choice.arm!r}; choose one of {', '.join(arms)}")
    alternatives = [row for row in board.rows if choice.configuration in (None, row.configuration)] or board.rows
    return ExportError(f"the leaderboard has no such row; there are:\n{_list_rows(alternatives, wording)}")


def _list_rows(rows: Sequence[LeaderboardRow], wording: RowWording) -> str:
    lines = [f"  {wording.describe(row)}" for row in rows[:_MAX_LISTED_ROWS]]
    return "\n".join([*lines, *([f"  and {len(rows) - len(lines)} more"] if len(rows) > len(lines) else [])])
