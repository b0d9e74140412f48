"""The verbs that write a whole study down: manifest and report."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bln_search.cli.output import ToOption, check_target, errors, give, write_file
from bln_search.cli.sources import (
    DatabaseOption,
    LedgerSource,
    ServerOption,
    Source,
    StudyArgument,
    TokenOption,
    open_source,
)
from bln_search.core.errors import MissingPackageError
from bln_search.ranking.leaderboard import rank
from bln_search.reports.charts.curves import TrialCurve
from bln_search.reports.environment_info import this_machine
from bln_search.reports.manifest import manifest, manifest_json
from bln_search.reports.page import Material
from bln_search.settings import load_settings
from bln_search.specs.space import point_label
from bln_search.storage.browse import Page, find_study_line, list_curves
from bln_search.storage.evaluations import scores
from bln_search.storage.ledger import open_ledger
from bln_search.storage.overview import drifts, inference_seconds
from bln_search.storage.probes import probes_of
from bln_search.storage.queries import StudySummary, TrialSummary

_MOST_CURVES = 60
_MOST_ARMS = 4
"""Whose layers are shown."""


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("manifest")(write_manifest)
    app.command()(report)


def write_manifest(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    to: ToOption = None,
) -> None:
    """Write down what a study's results rest on: seeds, versions, hardware, hashes of data and checkpoints."""
    if to is not None:
        check_target(to)
    with open_source(database, server, token) as source:
        found = source.find(study)
        content = _manifest(source, found, source.trials(found.id))
    give(manifest_json(content).encode(), to)


def report(
    study: StudyArgument,
    to: Annotated[Path, typer.Option("--to", help="HTML file to write, whole or not at all.", show_default=False)],
    database: DatabaseOption = None,
) -> None:
    """Write a whole study into one HTML file that needs nothing from elsewhere."""
    try:
        from bln_search.reports.page.html import plotly_script, study_page
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "web") from None
    plotly_script()
    check_target(to)
    with closing(open_ledger(database or load_settings().database_url)) as ledger:
        material = study_material(LedgerSource(ledger), ledger.find_study(study))
    content = study_page(material).encode()
    write_file(to, content)
    errors.print(f"{to}: {len(content) / 1e6:.1f} MB", highlight=False, markup=False, soft_wrap=True)


def study_material(source: LedgerSource, study: StudySummary) -> Material:
    """All that the report's sections may want of a study."""
    engine = source.ledger.engine
    trials = source.trials(study.id)
    scored = scores(engine, study.id)
    board = rank(scored, study.spec.ranking.split, seeds=len(study.spec.seeds))
    best = {row.arm: row.point for row in reversed(board.rows)}
    line = find_study_line(engine, study.id)
    return Material(
        study=study,
        scored=scored,
        trials=trials,
        manifest=_manifest(source, study, trials),
        curves=[
            TrialCurve(trial.arm, point_label(trial.parameters or {}), trial.seed, epochs)
            for trial, epochs in list_curves(engine, study.id, Page(_MOST_CURVES, "position"), {})[:_MOST_CURVES]
        ],
        seconds=inference_seconds(engine, study.id) if study.spec.space else {},
        drifts={arm: drifts(engine, study.id, arm, best[arm]) for arm in sorted(best)[:_MOST_ARMS]},
        notes=line[0].notes if line else "",
        analysis=source.analysis(study),
        probed=probes_of(engine, study.id),
    )


def _manifest(source: Source, study: StudySummary, trials: list[TrialSummary]) -> dict[str, Any]:
    return manifest(study, trials, machine=this_machine(), schema=source.schema(), now=datetime.now(UTC))
