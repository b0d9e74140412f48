"""The command streams: arms of adaptation over the streams of a study."""

from __future__ import annotations

import typer

from bln_search.cli import options
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.output import RecordsFormat, print_error, print_line, results
from bln_search.cli.records import print_records
from bln_search.cli.studies.results.analysis import load_study_and_analysis
from bln_search.cli.studies.results.leaderboard import format_study_name_and_title
from bln_search.reports.stream_table import stream_records, stream_sentences, stream_table


def streams(
    study: options.StudyArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    details: options.DetailsOption = False,
) -> None:
    """Print the ranked arms of adaptation of a study: errors over its streams, calibration, cost, collapse."""
    study_record, analysis = load_study_and_analysis(study, database, server, token)
    spec, ranked = study_record.spec.stream, analysis.streams
    if spec is None or ranked is None or not ranked.rows:
        reason = "it has no section `stream`" if spec is None else "it was not analyzed with its streams"
        if ranked is not None and ranked.reason is not None:
            reason = ranked.reason
        print_error(f"study {study_record.name} has no arms of adaptation to show: {reason}")
        raise typer.Exit(ExitCode.FAILED)
    if output_format is not RecordsFormat.TABLE:
        records = stream_records(ranked)
        print_records(records, tuple(records[0]), output_format)
        return
    results.print(stream_table(ranked, format_study_name_and_title(study_record), all_columns=details))
    for line in stream_sentences(ranked, spec):
        print_line(line)
