"""Commands that list studies and show one of them."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from bln_search.cli.options import DatabaseOption, FormatOption, ServerOption, StudyArgument, TokenOption
from bln_search.cli.output import Format, print_rows, results
from bln_search.cli.sources import open_source, study_fields
from bln_search.specs.records import TrialRecord

_TRIAL_COLUMNS = (
    "arm",
    "parameters",
    "seed",
    "state",
    "epoch",
    "judged under",
    "validation loss",
    "checkpoint",
    "reason",
)
_CHECKPOINT_FIELDS = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance", "snapshots")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list")(list_studies)
    app.command()(show)


def list_studies(
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the studies of the database, or of a service, newest first."""
    with open_source(database, server, token) as source:
        rows = source.list_studies()
    print_rows(rows, ("id", "name", "state", "trials", "finished", "failed", "created"), output)


def show(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a study: its trials, their states and checkpoints."""
    with open_source(database, server, token) as source:
        record = source.find(study)
        trials = source.trials(record.id)
    if output is Format.JSON:
        document = {
            **study_fields(record),
            "spec": record.spec.model_dump(mode="json"),
            "trial_list": [_trial_fields(trial) for trial in trials],
        }
        results.print_json(json.dumps(document))
        return
    if output is Format.TABLE:
        results.print(f"{record.name} (study {record.id}, {record.state}) {record.spec.title}".strip(), markup=False)
        if record.reason:
            results.print(f"reason: {record.reason}", markup=False, soft_wrap=True)
    rows = [
        {
            "arm": trial.arm,
            "parameters": trial.point_label,
            "seed": trial.seed,
            "state": trial.state.value,
            "epoch": trial.checkpoint.epoch if trial.checkpoint else None,
            "judged under": trial.checkpoint.judged_under if trial.checkpoint else None,
            "validation loss": f"{trial.checkpoint.validation_loss:.4f}" if trial.checkpoint else None,
            "checkpoint": trial.checkpoint.file if trial.checkpoint else None,
            "reason": trial.reason,
        }
        for trial in trials
    ]
    print_rows(rows, _TRIAL_COLUMNS, output)


def _trial_fields(trial: TrialRecord) -> dict[str, object]:
    """Return the fields of a trial for JSON."""
    checkpoint = None if trial.checkpoint is None else asdict(trial.checkpoint)
    if checkpoint is not None:
        checkpoint = {name: checkpoint[name] for name in _CHECKPOINT_FIELDS}
    return {
        "id": trial.id,
        "arm": trial.arm,
        "method": trial.method,
        "seed": trial.seed,
        "parameters": trial.point_label,
        "state": trial.state.value,
        "reason": trial.reason,
        "checkpoint": checkpoint,
        "point": trial.point,
    }
