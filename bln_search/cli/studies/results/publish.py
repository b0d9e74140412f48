"""Commands that document a study: manifest, report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bln_search.cli.options import DatabaseOption, OutputOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import check_output_path, errors, write_file, write_output
from bln_search.cli.sources import LedgerSource, StudySource, open_database, open_source
from bln_search.core.errors import MissingPackageError
from bln_search.ranking.leaderboard import rank_rows
from bln_search.reports.charts.curves import TrialCurve
from bln_search.reports.environment_info import environment_info
from bln_search.reports.manifest import build_manifest, manifest_json
from bln_search.reports.page import ReportContext
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.pagination import Page

_MAX_CURVES = 60
_MAX_ARMS = 4
"""Largest number of arms whose layers the report shows."""


def write_manifest(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: OutputOption = None,
) -> None:
    """Write the provenance of a study's results: seeds, versions, hardware, hashes of data and checkpoints."""
    if output is not None:
        check_output_path(output)
    with open_source(database, server, token) as source:
        study_record = source.find(study)
        content = _make_manifest(source, study_record, source.trials(study_record.id))
    write_output(manifest_json(content).encode(), output)


def report(
    study: StudyArgument,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="HTML file to write, atomically.", show_default=False),
    ],
    database: DatabaseOption = None,
) -> None:
    """Write a self-contained HTML report of a study."""
    try:
        from bln_search.reports.page.html import plotly_script, study_page
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "web") from None
    plotly_script()
    check_output_path(output)
    with open_database(database, load_settings()) as ledger:
        context = report_context(LedgerSource(ledger), ledger.studies.find(study))
    content = study_page(context).encode()
    write_file(output, content)
    errors.print(f"{output}: {len(content) / 1e6:.1f} MB", highlight=False, markup=False)


def report_context(source: LedgerSource, study: StudyRecord) -> ReportContext:
    """Read everything that the sections of the report need."""
    ledger = source.ledger
    trials = source.trials(study.id)
    evaluations = ledger.results.list_ranking_inputs(study.id)
    board = rank_rows(evaluations, study.spec.ranking.split, seeds=len(study.spec.seeds))
    best_points = {row.arm: row.point for row in reversed(board.rows)}
    listed_study = ledger.listing.find_study(study.id)
    return ReportContext(
        study=study,
        evaluations=evaluations,
        trials=trials,
        manifest=_make_manifest(source, study, trials),
        curves=[
            TrialCurve(curve.trial.arm, curve.trial.point_label, curve.trial.seed, curve.epochs)
            for curve in ledger.listing.list_curves(study.id, Page(_MAX_CURVES, "position"), {})[:_MAX_CURVES]
        ],
        seconds=ledger.results.find_inference_seconds(study.id) if study.spec.space else {},
        drifts={
            arm: ledger.results.list_drifts(study.id, arm, best_points[arm]) for arm in sorted(best_points)[:_MAX_ARMS]
        },
        geometries=ledger.results.list_layer_geometries(study.id) if _has_geometry(study) else {},
        notes=listed_study.notes if listed_study else "",
        analysis=source.analysis(study),
        probes=ledger.probes.list_probes(study.id),
    )


def _has_geometry(study: StudyRecord) -> bool:
    probes = study.spec.probes
    return probes is not None and probes.geometry is not None


def _make_manifest(source: StudySource, study: StudyRecord, trials: list[TrialRecord]) -> dict[str, Any]:
    return build_manifest(
        study, trials, machine=environment_info(), schema=source.schema_revision(), now=datetime.now(UTC)
    )
