"""Commands that document a study: manifest, report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bln_search.cli.options import DatabaseOption, OutputOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import check_output_path_writable, print_note, write_file_atomically, write_to_file_or_stdout
from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.sources.opening import open_database_ignoring_service, open_study_source
from bln_search.cli.sources.studies import StudySource
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.reports.charts.curves import TrialLearningCurve
from bln_search.reports.charts.search_progress import has_sampler, list_tried_points
from bln_search.reports.environment_info import collect_environment_info
from bln_search.reports.manifest import build_study_manifest, manifest_to_json
from bln_search.reports.page import StudyReportContext
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.sections.point_labels import make_label_by_distinct_point

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
        check_output_path_writable(output)
    with open_study_source(database, server, token) as source:
        study_record = source.get_study(study)
        content = _build_study_manifest(source, study_record, source.list_trials(study_record.id))
    write_to_file_or_stdout(manifest_to_json(content).encode(), output)


def write_html_report(
    study: StudyArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write, atomically.", show_default=False)
    ],
    database: DatabaseOption = None,
) -> None:
    """Write a self-contained HTML report of a study."""
    from bln_search.reports.page.html import render_study_report_html

    check_output_path_writable(output)
    with open_database_ignoring_service(database, load_settings()) as ledger:
        context = read_study_report_context(LedgerSource(ledger), ledger.studies.get_by_name_or_id(study))
    content = render_study_report_html(context).encode()
    write_file_atomically(output, content)
    print_note(f"{output}: {len(content) / 1e6:.1f} MB")


def read_study_report_context(source: LedgerSource, study: StudyRecord) -> StudyReportContext:
    """Read everything that the sections of the report need."""
    ledger = source.ledger
    trials = source.list_trials(study.id)
    evaluations = ledger.results.list_evaluations_for_ranking(study.id)
    board = build_leaderboard_from_evaluations(evaluations, study.spec.ranking.split, seeds=study.spec.ranked_seeds)
    best_points = {row.arm: row.point for row in reversed(board.rows)}
    listed_study = ledger.study_lists.find_study_item(study.id)
    curves = ledger.trial_lists.list_charted_learning_curves(study.id, _MAX_CURVES)
    point_labels = make_label_by_distinct_point(curve.trial.point_json for curve in curves)
    return StudyReportContext(
        study=study,
        evaluations=evaluations,
        trials=trials,
        manifest=_build_study_manifest(source, study, trials),
        curves=[
            TrialLearningCurve(curve.trial.arm, point_labels[curve.trial.point_json], curve.trial.seed, curve.epochs)
            for curve in curves
        ],
        seconds=ledger.results.read_seconds_per_1000_examples_by_arm_point(study.id) if study.spec.space else {},
        drifts={
            arm: ledger.results.read_layer_drifts_by_seed(study.id, arm, best_points[arm])
            for arm in sorted(best_points)[:_MAX_ARMS]
        },
        geometries=ledger.results.read_layer_geometries_by_arm_and_point(study.id)
        if study.spec.measures_layer_geometry
        else {},
        notes=listed_study.notes if listed_study else "",
        analysis=source.find_or_compute_analysis(study),
        probes=ledger.probes.list_probes(study.id),
        tried_points=list_tried_points(ledger.trials.list_sampled_trials_grouped_by_point(study.id), study.spec)
        if has_sampler(study.spec)
        else (),
    )


def _build_study_manifest(source: StudySource, study: StudyRecord, trials: list[TrialRecord]) -> dict[str, Any]:
    return build_study_manifest(
        study, trials, machine=collect_environment_info(), schema=source.find_schema_revision(), now=datetime.now(UTC)
    )
