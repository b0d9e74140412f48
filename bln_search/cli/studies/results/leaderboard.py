"""Command `leaderboard`: print or write a leaderboard."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bln_search.cli import options
from bln_search.cli.output import (
    LeaderboardFormat,
    RecordsFormat,
    check_output_path_writable,
    print_line,
    print_note,
    results,
    write_to_file_or_stdout,
)
from bln_search.cli.sources.opening import open_study_source
from bln_search.cli.sources.studies import StudySource
from bln_search.core.enums import Split
from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import (
    leaderboard_csv,
    leaderboard_json,
    leaderboard_jsonl,
    loss_and_task_metric_fields,
)
from bln_search.reports.formatting import compared_rows_by_key, level_of_comparison
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.sentences.seed_looks import seed_looks_sentence
from bln_search.reports.terminal.leaderboard import leaderboard_table, unranked_reason_lines
from bln_search.reports.terminal.result import RenderableResultSummary
from bln_search.specs.records import StudyRecord

_FILE_WIDTH = 1_000
"""Width of a table in a file, so that no cell is wrapped."""


def leaderboard(
    study: options.StudyArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    output_format: Annotated[
        LeaderboardFormat | None,
        typer.Option(
            "--format", help="Output format; by default that of the ending of --output, else table.", show_default=False
        ),
    ] = None,
    output: options.OutputOption = None,
    arm: Annotated[
        str | None, typer.Option("--arm", metavar="ARM", help="Only rows of this arm, with their ranks among all rows.")
    ] = None,
    split: options.SplitOption = None,
    limit: options.LimitOption = None,
    details: options.DetailsOption = False,
) -> None:
    """Print the ranked table of a study, or write it to a file."""
    if output_format is None:
        output_format = LeaderboardFormat.TABLE if output is None else LeaderboardFormat.of_file(output)
    if output is not None:
        check_output_path_writable(output)
    elif output_format is LeaderboardFormat.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter(
            "Parquet is binary: choose a file with --output, or use a pipe", param_hint="--format parquet"
        )
    if output_format is LeaderboardFormat.PARQUET:
        import bln_search.reports.parquet  # noqa: F401 - without its package nothing is read
    on = None if split is None else Split(split)
    with open_study_source(database, server, token) as source:
        study_record = source.get_study(study)
        print_or_write_leaderboard(
            source, study_record, output_format, to=output, arm=arm, on=on, limit=limit, details=details
        )


def print_or_write_leaderboard(
    source: StudySource,
    study: StudyRecord,
    output: RecordsFormat | LeaderboardFormat,
    *,
    to: Path | None = None,
    arm: str | None = None,
    on: Split | None = None,
    limit: int | None = None,
    details: bool = False,
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
        details: Print all columns and the statistics behind the recommendation.
    """
    labels = [spec.label for spec in study.spec.arms]
    if arm is not None and arm not in labels:
        raise typer.BadParameter(f"the study has no arm {arm!r}; choose one of {', '.join(labels)}", param_hint="--arm")
    board = source.get_leaderboard(study, arm, on)
    leaderboard_format = LeaderboardFormat(output)
    analysis = source.find_or_compute_analysis(study) if on in (None, study.spec.ranking.split) else None
    if leaderboard_format is not LeaderboardFormat.TABLE:
        rows = Leaderboard(board.ranked_on, board.rows[:limit])
        write_to_file_or_stdout(_encode_leaderboard(rows, study, analysis, leaderboard_format), to)
        return
    recommendation = None if analysis is None else analysis.recommendation
    table = leaderboard_table(
        board,
        format_study_name_and_title(study),
        limit,
        compared_rows_by_key(analysis),
        recommended=None if recommendation is None else recommendation.key,
        level=level_of_comparison(analysis),
        all_columns=details,
        has_details=True,
        score=study.spec.loss_description.text,
    )
    lines = unranked_reason_lines(board)
    if study.spec.planned_looks:
        lines.append(seed_looks_sentence(study.spec, source.list_trials(study.id)))
    lines += study.code_changes
    lines += [f"Only rows of {arm}; ranks and groups are those among all rows."] if arm is not None else []

    def print_table(console: Console) -> None:
        console.print(table)
        for line in lines:
            print_line(line, console)
        if arm is None and analysis is not None:  # the analysis is about all rows
            console.print(RenderableResultSummary(analysis, details=details))

    if to is not None:
        text = io.StringIO()
        print_table(Console(file=text, width=_FILE_WIDTH))
        write_to_file_or_stdout(text.getvalue().encode(), to)
    elif not board.rows:
        hint = next_step_hint(study) + _complete_older_study_hint(source, study)
        print_note(f"study {study.name} is {study.state} and has no result yet{hint}")
    else:
        print_table(results)


def next_step_hint(study: StudyRecord) -> str:
    """The end of a sentence that says how a study without results gets them; empty where nothing is to be done."""
    return "; `bln-search run` resumes it" if study.state is StudyState.INTERRUPTED else ""


def _complete_older_study_hint(source: StudySource, study: StudyRecord) -> str:
    """Return a hint if an older study of the same name is complete; a name refers to the newest study."""
    candidates = (
        listed
        for listed in source.list_studies()
        if listed["name"] == study.name and listed["state"] == StudyState.COMPLETE
    )
    complete = next((number for listed in candidates if (number := int(str(listed["id"]))) < study.id), None)
    return "" if complete is None else f"; an older study of this name is complete: `bln-search leaderboard {complete}`"


def format_study_name_and_title(study: StudyRecord) -> str:
    """Name, state and title of a study."""
    return f"{study.name} ({study.state}): {study.spec.title}" if study.spec.title else study.name


def _encode_leaderboard(
    board: Leaderboard, study: StudyRecord, analysis: Analysis | None, output: LeaderboardFormat
) -> bytes:
    """The leaderboard in a format other than the printed table."""
    view = LeaderboardView.of_analysis(board, analysis)
    loss = study.spec.loss_description
    match output:
        case LeaderboardFormat.CSV:
            text = leaderboard_csv(board, view, study.code_changes)
        case LeaderboardFormat.JSON:
            header = {
                "study": study.name,
                "id": study.id,
                "state": study.state,
                **({"code_changes": study.code_changes} if study.code_changes else {}),
                **loss_and_task_metric_fields(study.spec, board),
            }
            text = leaderboard_json(board, header, view) + "\n"
        case LeaderboardFormat.JSONL:
            text = leaderboard_jsonl(board, {"study": study.name, "id": study.id}, view)
        case LeaderboardFormat.LATEX:
            text = leaderboard_latex(board, format_study_name_and_title(study), analysis)
        case LeaderboardFormat.MARKDOWN:
            text = leaderboard_markdown(board, analysis)
        case _:
            metadata = {"study": study.name, "id": str(study.id), "state": study.state.value}
            from bln_search.reports.parquet import leaderboard_parquet

            return leaderboard_parquet(board, metadata | {"loss": loss.name, "loss_unit": loss.unit}, view)
    return text.encode()
