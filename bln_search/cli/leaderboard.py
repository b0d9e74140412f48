"""The verb `leaderboard`: the ranked table, printed or written."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bln_search.cli.output import BoardFormat, Format, ToOption, check_target, errors, give, results
from bln_search.cli.sources import DatabaseOption, ServerOption, Source, StudyArgument, TokenOption, open_source
from bln_search.core.enums import Split
from bln_search.core.errors import MissingPackageError
from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.comparison import analysis_lines, groups_of
from bln_search.reports.export import leaderboard_csv, leaderboard_json
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.table import compact_table, leaderboard_table, reasons
from bln_search.storage.queries import StudySummary

_FULL_WIDTH = 140
"""Columns of a terminal that hold the whole table."""

_FILE_WIDTH = 1_000
"""A file has no edge: no cell of a table is broken for one."""


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(leaderboard)


def leaderboard(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: Annotated[BoardFormat, typer.Option("--format", help="How to print or write.")] = BoardFormat.TABLE,
    to: ToOption = None,
    arm: Annotated[str | None, typer.Option(help="Only rows of this arm, with their ranks in the whole table.")] = None,
    on: Annotated[Split | None, typer.Option(help="Split that decides the order; by default the study's.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows, in every format.")] = None,
) -> None:
    """Print the ranked table of a study, or write it to a file."""
    if to is not None:
        check_target(to)
    elif output is BoardFormat.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter("it is not text: name a file with --to, or use a pipe", param_hint="--format parquet")
    if output is BoardFormat.PARQUET:
        _parquet_writer()
    with open_source(database, server, token) as source:
        print_leaderboard(source, source.find(study), output, to=to, arm=arm, on=on, limit=limit)


def print_leaderboard(
    source: Source,
    study: StudySummary,
    output: Format | BoardFormat,
    *,
    to: Path | None = None,
    arm: str | None = None,
    on: Split | None = None,
    limit: int | None = None,
) -> None:
    """The ranked table of a study on standard output, or in a file."""
    if on is Split.TRAIN:
        raise typer.BadParameter("nothing is evaluated on train; choose validation or test", param_hint="--on")
    labels = [each.label for each in study.spec.arms]
    if arm is not None and arm not in labels:
        raise typer.BadParameter(f"the study has no arm {arm!r}; choose one of {', '.join(labels)}", param_hint="--arm")
    board = source.board(study, arm, on)
    analysis = source.analysis(study) if BoardFormat(output) is BoardFormat.TABLE and _of_study(study, on) else None
    chosen = BoardFormat(output)
    if chosen is not BoardFormat.TABLE:
        give(_WRITTEN[chosen](Leaderboard(board.ranked_on, board.rows[:limit]), study), to)
    elif to is not None:
        text = io.StringIO()
        _print_table(Console(file=text, width=_FILE_WIDTH), board, study, limit, analysis, arm)
        give(text.getvalue().encode(), to)
    elif not board.rows:
        hint = "; `bln-search run` goes on with it" if study.state is StudyState.INTERRUPTED else ""
        hint += _older(source, study)
        errors.print(f"study {study.name} is {study.state} and has no result yet{hint}", soft_wrap=True)
    else:
        _print_table(results, board, study, limit, analysis, arm)


def _of_study(study: StudySummary, on: Split | None) -> bool:
    """Is this the split on which the study's rows are compared?"""
    return on in (None, study.spec.ranking.split)


def _older(source: Source, study: StudySummary) -> str:
    """Words for an older study of that name that has a table; a name stands for the newest."""
    same = (line for line in source.lines() if line["name"] == study.name and line["state"] == StudyState.COMPLETE)
    complete = next((number for line in same if (number := int(str(line["id"]))) < study.id), None)
    return "" if complete is None else f"; an older one of that name is complete: `bln-search leaderboard {complete}`"


def _print_table(
    console: Console,
    board: Leaderboard,
    study: StudySummary,
    limit: int | None,
    analysis: Analysis | None,
    arm: str | None,
) -> None:
    fits = console.width >= _FULL_WIDTH
    groups = groups_of(analysis)
    console.print((leaderboard_table if fits else compact_table)(board, _title(study), limit, groups))
    if arm is not None:  # what is said of the study would be said of rows that are not shown
        said = [f"Only rows of {arm}; ranks and groups are those of the whole table."]
    else:
        said = [] if analysis is None else analysis_lines(analysis)
    for line in [*reasons(board), *said]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _title(study: StudySummary) -> str:
    return f"{study.name} ({study.state}): {study.spec.title}" if study.spec.title else study.name


def _csv(board: Leaderboard, _study: StudySummary) -> bytes:
    return leaderboard_csv(board).encode()


def _json(board: Leaderboard, study: StudySummary) -> bytes:
    about = {"study": study.name, "id": study.id, "state": study.state}
    return (leaderboard_json(board, about) + "\n").encode()


def _latex(board: Leaderboard, study: StudySummary) -> bytes:
    return leaderboard_latex(board, _title(study)).encode()


def _markdown(board: Leaderboard, _study: StudySummary) -> bytes:
    return leaderboard_markdown(board).encode()


def _parquet(board: Leaderboard, study: StudySummary) -> bytes:
    return _parquet_writer()(board, {"study": study.name, "id": str(study.id), "state": study.state.value})


def _parquet_writer() -> Callable[[Leaderboard, Mapping[str, str]], bytes]:
    """Raises MissingPackageError without pyarrow."""
    try:
        from bln_search.reports.parquet import leaderboard_parquet
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "train") from None
    return leaderboard_parquet


_WRITTEN: Mapping[BoardFormat, Callable[[Leaderboard, StudySummary], bytes]] = {
    BoardFormat.CSV: _csv,
    BoardFormat.JSON: _json,
    BoardFormat.LATEX: _latex,
    BoardFormat.MARKDOWN: _markdown,
    BoardFormat.PARQUET: _parquet,
}
