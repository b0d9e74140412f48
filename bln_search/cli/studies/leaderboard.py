"""Command `leaderboard`: print or write a leaderboard."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bln_search.cli.options import (
    DatabaseOption,
    LimitOption,
    OutputOption,
    ServerOption,
    SplitOption,
    StudyArgument,
    TokenOption,
)
from bln_search.cli.output import Format, LeaderboardFormat, check_output_path, errors, results, write_output
from bln_search.cli.sources import StudySource, open_source
from bln_search.core.enums import Split
from bln_search.core.errors import MissingPackageError
from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import flat_row, leaderboard_csv, leaderboard_json
from bln_search.reports.formatting import compared_rows
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.terminal.leaderboard import compact_table, leaderboard_table, unranked_reasons
from bln_search.specs.records import StudyRecord

_FULL_WIDTH = 140
"""Width in characters of a terminal that shows all columns."""

_FILE_WIDTH = 1_000
"""Width of a table in a file, so that no cell is wrapped."""


def leaderboard(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output_format: Annotated[
        LeaderboardFormat, typer.Option("--format", help="Output format.")
    ] = LeaderboardFormat.TABLE,
    output: OutputOption = None,
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="ARM", help="Only rows of this arm, with their ranks among all rows.")
    ] = None,
    split: SplitOption = None,
    limit: LimitOption = None,
) -> None:
    """Print the ranked table of a study, or write it to a file."""
    if output is not None:
        check_output_path(output)
    elif output_format is LeaderboardFormat.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter(
            "Parquet is binary: choose a file with --output, or use a pipe", param_hint="--format parquet"
        )
    if output_format is LeaderboardFormat.PARQUET:
        _parquet_writer()
    on = None if split is None else Split(split)
    with open_source(database, server, token) as source:
        print_leaderboard(source, source.find(study), output_format, to=output, arm=arm, on=on, limit=limit)


def print_leaderboard(
    source: StudySource,
    study: StudyRecord,
    output: Format | LeaderboardFormat,
    *,
    to: Path | None = None,
    arm: str | None = None,
    on: Split | None = None,
    limit: int | None = None,
) -> None:
    """Print a leaderboard, or write it to a file.

    Args:
        source: Source of the study.
        study: The study.
        output: Format.
        to: File; by default standard output.
        arm: Only the rows of this arm.
        on: Split that ranks the rows; by default the study's.
        limit: Largest number of rows.
    """
    labels = [spec.label for spec in study.spec.arms]
    if arm is not None and arm not in labels:
        raise typer.BadParameter(f"the study has no arm {arm!r}; choose one of {', '.join(labels)}", param_hint="--arm")
    board = source.leaderboard(study, arm, on)
    leaderboard_format = LeaderboardFormat(output)
    is_table = leaderboard_format is LeaderboardFormat.TABLE
    analysis = source.analysis(study) if is_table and _is_study_split(study, on) else None
    if not is_table:
        write_output(_FORMATTERS[leaderboard_format](Leaderboard(board.ranked_on, board.rows[:limit]), study), to)
    elif to is not None:
        text = io.StringIO()
        _print_table(Console(file=text, width=_FILE_WIDTH), board, study, limit, analysis, arm)
        write_output(text.getvalue().encode(), to)
    elif not board.rows:
        hint = "; `bln-search run` resumes it" if study.state is StudyState.INTERRUPTED else ""
        hint += _older_hint(source, study)
        errors.print(f"study {study.name} is {study.state} and has no result yet{hint}", soft_wrap=True)
    else:
        _print_table(results, board, study, limit, analysis, arm)


def _is_study_split(study: StudyRecord, on: Split | None) -> bool:
    """Is this the split on which the study compares rows?"""
    return on in (None, study.spec.ranking.split)


def _older_hint(source: StudySource, study: StudyRecord) -> str:
    """Return a hint if an older study of the same name is complete; a name refers to the newest study."""
    candidates = (
        listed
        for listed in source.list_studies()
        if listed["name"] == study.name and listed["state"] == StudyState.COMPLETE
    )
    complete = next((number for listed in candidates if (number := int(str(listed["id"]))) < study.id), None)
    return "" if complete is None else f"; an older study of this name is complete: `bln-search leaderboard {complete}`"


def _print_table(
    console: Console,
    board: Leaderboard,
    study: StudyRecord,
    limit: int | None,
    analysis: Analysis | None,
    arm: str | None,
) -> None:
    is_wide = console.width >= _FULL_WIDTH
    groups = compared_rows(analysis)
    console.print((leaderboard_table if is_wide else compact_table)(board, _title(study), limit, groups))
    if arm is not None:  # the analysis is about all rows
        lines = [f"Only rows of {arm}; ranks and groups are those among all rows."]
    else:
        lines = [] if analysis is None else analysis_sentences(analysis)
    for line in [*unranked_reasons(board), *lines]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _title(study: StudyRecord) -> str:
    return f"{study.name} ({study.state}): {study.spec.title}" if study.spec.title else study.name


def _csv(board: Leaderboard, _study: StudyRecord) -> bytes:
    return leaderboard_csv(board).encode()


def _json(board: Leaderboard, study: StudyRecord) -> bytes:
    header = {"study": study.name, "id": study.id, "state": study.state}
    return (leaderboard_json(board, header) + "\n").encode()


def _jsonl(board: Leaderboard, _study: StudyRecord) -> bytes:
    return "".join(f"{json.dumps(flat_row(row), allow_nan=False)}\n" for row in board.rows).encode()


def _latex(board: Leaderboard, study: StudyRecord) -> bytes:
    return leaderboard_latex(board, _title(study)).encode()


def _markdown(board: Leaderboard, _study: StudyRecord) -> bytes:
    return leaderboard_markdown(board).encode()


def _parquet(board: Leaderboard, study: StudyRecord) -> bytes:
    return _parquet_writer()(board, {"study": study.name, "id": str(study.id), "state": study.state.value})


def _parquet_writer() -> Callable[[Leaderboard, Mapping[str, str]], bytes]:
    """Return the function that writes Parquet. Raises MissingPackageError without pyarrow."""
    try:
        from bln_search.reports.parquet import leaderboard_parquet
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "train") from None
    return leaderboard_parquet


_FORMATTERS: Mapping[LeaderboardFormat, Callable[[Leaderboard, StudyRecord], bytes]] = {
    LeaderboardFormat.CSV: _csv,
    LeaderboardFormat.JSON: _json,
    LeaderboardFormat.JSONL: _jsonl,
    LeaderboardFormat.LATEX: _latex,
    LeaderboardFormat.MARKDOWN: _markdown,
    LeaderboardFormat.PARQUET: _parquet,
}
