"""Commands for the analysis of a study: analyze, probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bln_search.cli import options
from bln_search.cli.environment import make_execution_environment
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.output import (
    DocumentFormat,
    RecordsFormat,
    make_progress_line_printer,
    print_error,
    print_note,
    results,
)
from bln_search.cli.records import print_records
from bln_search.cli.sources.opening import get_study_to_change, open_database_ignoring_service, open_study_source
from bln_search.cli.sources.studies import FOLLOWED_STATES
from bln_search.cli.studies.results.leaderboard import format_study_name_and_title, next_step_hint
from bln_search.core.enums import ProbeKind
from bln_search.core.names import format_count_with_noun
from bln_search.core.states import StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.probe_results import TrialProbe
from bln_search.reports.terminal.comparison import row_comparison_table
from bln_search.reports.terminal.result import RenderableResultSummary
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord
from bln_search.specs.sections.evaluation import ProbesSpec

_PROBE_COLUMNS = (
    *("arm", "parameters", "seed", "kind", "configuration", "population", "batch_size", "split"),
    *("examples", "loss", "accuracy", "deviation", "flips"),
)


def analyze(
    study: options.StudyArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    output_format: options.DocumentFormatOption = DocumentFormat.TABLE,
    details: options.DetailsOption = False,
) -> None:
    """Print which rows differ significantly, which row is recommended, and its selection bias."""
    study_record, analysis = load_study_and_analysis(study, database, server, token)
    if output_format is DocumentFormat.JSON:
        typer.echo(analysis.model_dump_json(indent=1))
        return
    _print_analysis(
        analysis,
        format_study_name_and_title(study_record),
        score=study_record.spec.loss_description.text,
        details=details,
    )
    if analysis.comparison is None and study_record.state is not StudyState.COMPLETE:
        print_note(
            f"study {study_record.id} ({study_record.name}) is {study_record.state}{next_step_hint(study_record)}"
        )


def load_study_and_analysis(
    study: str, database: str | None, server: str | None, token: str | None
) -> tuple[StudyRecord, Analysis]:
    """Return a study and its analysis. Exits with code 1 if there is no analysis yet."""
    with open_study_source(database, server, token) as source:
        study_record = source.get_study(study)
        analysis = source.find_or_compute_analysis(study_record, allow_incomplete=True)
    if analysis is None:
        print_error(_why_analysis_is_absent(study_record))
        raise typer.Exit(ExitCode.FAILED)
    return study_record, analysis


def _why_analysis_is_absent(study: StudyRecord) -> str:
    """Return why a service has no analysis of a study, and what to do."""
    if study.state is StudyState.COMPLETE:
        return f"study {study.id} ({study.name}) is complete and not analyzed yet: a worker analyzes it; try again"
    hint = "" if study.state in FOLLOWED_STATES else f"; `bln-search resume {study.id}` queues it again"
    return f"study {study.id} ({study.name}) is {study.state}, and only a complete study is analyzed{hint}"


def _print_analysis(analysis: Analysis, title: str, *, score: str, details: bool) -> None:
    if analysis.comparison is not None:
        recommended = None if analysis.recommendation is None else analysis.recommendation.key
        results.print(
            row_comparison_table(
                analysis.comparison, title, recommended=recommended, all_columns=details, has_details=True, score=score
            )
        )
    results.print(RenderableResultSummary(analysis, details=details, standalone=True))


def probe(
    study: options.StudyArgument,
    batch_sizes: Annotated[
        str | None, typer.Option("--batch-sizes", metavar="N,...", help="Inference mini-batch sizes, as in 1,2,4,8.")
    ] = None,
    reshuffles: Annotated[
        int, typer.Option("--reshuffles", min=0, max=1000, metavar="N", help="Number of other orders of the examples.")
    ] = 0,
    database: options.DatabaseOption = None,
    data: options.DataOption = None,
    device: options.DeviceOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
    accept_code_change: options.AcceptCodeChangeOption = False,
) -> None:
    """Measure the trained networks of a study in other mini-batches, without training again.

    Sizes measure loss and accuracy at other mini-batch sizes; reshuffles measure the dependence on batch composition.
    """
    from bln_search.execution.device_process import use_environment_in_this_process
    from bln_search.worker.analysis import compute_and_store_analysis
    from bln_search.worker.probe_study import probe_networks_of_study

    sizes = _parse_batch_sizes(batch_sizes)
    if sizes is None and not reshuffles:
        raise typer.BadParameter("choose what to measure: --batch-sizes 1,25,100 or --reshuffles 5", param_hint="probe")
    settings = load_settings()
    probes = ProbesSpec(batch_sizes=sizes, reshuffles=reshuffles)
    with open_database_ignoring_service(database, settings) as ledger:
        study_record = get_study_to_change(ledger, study)
        environment = use_environment_in_this_process(make_execution_environment(settings, data, device))
        result_count = probe_networks_of_study(
            ledger,
            study_record.id,
            environment,
            probes,
            make_progress_line_printer(quiet=quiet),
            accept_code_change=accept_code_change,
        )
        compute_and_store_analysis(ledger, study_record.id, None)
        if output_format is not RecordsFormat.TABLE:
            print_measured_probes(ledger.probes.list_probes(study_record.id), probes, output_format)
        elif not quiet:
            stored = format_count_with_noun(result_count, "result", "results")
            print_note(
                f"{stored} stored: `bln-search report {study_record.id}` and the leaderboard page plot them, "
                "`probe --format csv` prints them, and the recommendation takes them into account",
            )


def _parse_batch_sizes(text: str | None) -> tuple[int, ...] | None:
    """Parse sizes such as `1,2,4`; None without text."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= 1_000_000 for part in parts):
        raise typer.BadParameter(f"{text!r} is not a list of sizes such as 1,2,4,8", param_hint="--batch-sizes")
    return tuple(dict.fromkeys(int(part) for part in parts))


def print_measured_probes(probes: Sequence[TrialProbe], measured: ProbesSpec, output_format: RecordsFormat) -> None:
    """Print the probes of the kinds that were measured.

    Args:
        probes: Every probe of the study.
        measured: What was measured.
        output_format: The format.
    """
    kinds = {
        *([ProbeKind.SIZE] if measured.batch_sizes else []),
        *([ProbeKind.RESHUFFLED, ProbeKind.SKEWED] if measured.reshuffles else []),
    }
    records = [_probe_to_record(probe) for probe in probes if probe.probe.kind in kinds]
    has_accuracy = any(probe.probe.accuracy is not None for probe in probes)
    columns = [column for column in _PROBE_COLUMNS if has_accuracy or column != "accuracy"]
    print_records(records, columns, output_format)


def _probe_to_record(trial_probe: TrialProbe) -> dict[str, object]:
    probe = trial_probe.probe
    return {
        "arm": trial_probe.arm,
        "parameters": trial_probe.point or None,
        "seed": trial_probe.seed,
        "kind": probe.kind,
        "configuration": str(probe.key.configuration),
        "population": probe.key.estimate,
        "batch_size": probe.key.batch_size,
        "split": probe.key.split,
        "examples": probe.n,
        "loss": probe.loss,
        **({} if probe.accuracy is None else {"accuracy": probe.accuracy}),
        "deviation": probe.deviation,
        "flips": probe.flips,
    }
