"""Commands that list studies and show one of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from bln_search.cli import options
from bln_search.cli.output import RecordsFormat, print_line, print_note
from bln_search.cli.records import print_records
from bln_search.cli.sources.opening import open_study_source
from bln_search.cli.sources.studies import StudyFilter, study_to_list_record
from bln_search.core.errors import MissingDatabaseError
from bln_search.core.states import StudyState
from bln_search.core.tags import check_and_sort_unique_tags
from bln_search.settings import load_settings
from bln_search.specs.records import TrialRecord
from bln_search.specs.sections.point_labels import make_label_by_distinct_point

_STUDY_COLUMNS = ("id", "name", "owner", "state", "tags", "trials", "finished", "failed", "created")
_TRIAL_COLUMNS = (
    "trial",
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
_OPTIONAL_STUDY_COLUMNS = ("tags", "created", "failed", "owner")
_OPTIONAL_TRIAL_COLUMNS = ("checkpoint", "judged under", "epoch", "reason")
"""Columns that a narrow terminal does not show, the least important first."""

_CHECKPOINT_FIELDS = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance", "snapshots")

_STATES = ", ".join(StudyState)


def list_studies(
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    state: Annotated[
        list[StudyState] | None,
        typer.Option("--state", metavar="STATE", help=f"Only studies in this state: {_STATES}; repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="Only studies whose names contain this text.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="Only studies of this account; of a service as admin only."),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only studies with this tag; repeatable.")
    ] = None,
    limit: options.LimitOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
) -> None:
    """List the studies of the database, or of a service, newest first."""
    study_filter = StudyFilter(tuple(state or ()), name, owner, check_and_sort_unique_tags(tags or ()), limit)
    try:
        with open_study_source(database, server, token) as source:
            records = source.list_studies(study_filter)
    except MissingDatabaseError as error:
        if database is not None or load_settings().database is not None:
            raise
        print_note(str(error))  # a new home has no study, which is no error
        records = []
    print_records(records, _STUDY_COLUMNS, output_format, optional=_OPTIONAL_STUDY_COLUMNS)


def show(
    study: options.StudyArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
) -> None:
    """Show a study: its trials, their states and checkpoints."""
    with open_study_source(database, server, token) as source:
        record = source.get_study(study)
        trials = source.list_trials(record.id)
    labels = make_label_by_distinct_point(trial.point_json for trial in trials)
    if output_format is RecordsFormat.JSON:
        document = {
            **study_to_list_record(record),
            "spec": record.spec.model_dump(mode="json"),
            "trial_list": [_trial_to_json_fields(trial, labels[trial.point_json]) for trial in trials],
        }
        typer.echo(json.dumps(document, indent=2))
        return
    if output_format is RecordsFormat.TABLE:
        owner = f"owner {record.owner}, " if record.owner else ""
        title = f"{record.name} (study {record.id}, {owner}{record.state}) {record.title}".strip()
        print_line(title)
        if record.tags:
            print_line(f"tags: {', '.join(record.tags)}")
        if record.reason:
            print_line(f"reason: {record.reason}")
    rows = [_trial_to_table_row(trial, labels[trial.point_json]) for trial in trials]
    print_records(rows, _TRIAL_COLUMNS, output_format, optional=_OPTIONAL_TRIAL_COLUMNS)


def _trial_to_table_row(trial: TrialRecord, point_label: str) -> dict[str, object]:
    """Return the fields of a trial for a table. point_label: its point, distinct from those of other trials."""
    return {
        "trial": trial.id,
        "arm": trial.arm,
        "parameters": point_label,
        "seed": trial.seed,
        "state": trial.state.value,
        "epoch": trial.checkpoint.epoch if trial.checkpoint else None,
        "judged under": trial.checkpoint.judged_under if trial.checkpoint else None,
        "validation loss": f"{trial.checkpoint.validation_loss:.4f}" if trial.checkpoint else None,
        "checkpoint": trial.checkpoint.file if trial.checkpoint else None,
        "reason": trial.reason,
    }


def _trial_to_json_fields(trial: TrialRecord, point_label: str) -> dict[str, object]:
    """Return the fields of a trial for JSON. point_label: its point, distinct from those of other trials."""
    checkpoint = None if trial.checkpoint is None else asdict(trial.checkpoint)
    if checkpoint is not None:
        checkpoint = {name: checkpoint[name] for name in _CHECKPOINT_FIELDS}
    return {
        "id": trial.id,
        "arm": trial.arm,
        "method": trial.method,
        "seed": trial.seed,
        "parameters": point_label,
        "state": trial.state.value,
        "reason": trial.reason,
        "checkpoint": checkpoint,
        "point": trial.point_json,
    }
