"""Sections of the trials, the manifest, and the commands that reproduce the study."""

from __future__ import annotations

from collections import Counter

from bln_search.reports.manifest import manifest_to_json
from bln_search.reports.page.blocks import (
    MAX_TABLE_ROWS,
    Block,
    Code,
    Column,
    ColumnKind,
    Paragraph,
    Row,
    Section,
    Table,
)
from bln_search.reports.page.context import StudyReportContext
from bln_search.specs.records import TrialRecord

_TRIAL_COLUMNS = (
    Column("Trial", ColumnKind.NUMBER),
    Column("Arm"),
    Column("Parameters"),
    Column("Seed", ColumnKind.NUMBER),
    Column("State"),
    Column("Kept epoch", ColumnKind.NUMBER),
    Column("Validation loss", ColumnKind.NUMBER),
    Column("Checkpoint"),
)
_FAILURE_COLUMNS = (
    Column("Trial", ColumnKind.NUMBER),
    Column("Arm"),
    Column("Parameters"),
    Column("Seed"),
    Column("Reason"),
)


def trials_section(context: StudyReportContext) -> Section:
    """Every trial with its state; trials with a reason for their state first."""
    counts = Counter(trial.state.value for trial in context.trials)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items())) or "none yet"
    blocks: list[Block] = [Paragraph(f"{len(context.trials):,} trials: {states}.")]
    with_reason = [trial for trial in context.trials if trial.reason]
    failures = [Row([*_trial_identity_cells(trial), f"{trial.state.value}: {trial.reason}"]) for trial in with_reason]
    more = f"All of them: bln-search show {context.study.name} --format csv"
    if failures:
        blocks.append(Table("Trials that did not finish", _FAILURE_COLUMNS, failures, more=more))
    rows = [_trial_table_row(trial) for trial in context.trials]
    return Section("trials", "Trials", [*blocks, Table("Every trial", _TRIAL_COLUMNS, rows, more=more, folded=True)])


def manifest_section(context: StudyReportContext) -> Section:
    """Seeds, versions, hardware and hashes; for a large study those of its first trials."""
    content = context.manifest
    data = content["data"]["sha256"] or "unknown"
    blocks: list[Block] = [
        Paragraph(
            f"Written at {content['written_at']} by bln-search {content['written_by'].get('bln_search')}, revision "
            f"{content['written_by'].get('git_revision') or 'unknown'}. SHA-256 of the data: {data}."
        )
    ]
    shortened = dict(content)
    if len(content["trials"]) > MAX_TABLE_ROWS:
        shortened["trials"] = content["trials"][:MAX_TABLE_ROWS]
        blocks.append(
            Paragraph(
                f"The first {MAX_TABLE_ROWS:,} of {len(content['trials']):,} trials are shown. "
                f"All of them: bln-search manifest {context.study.name}"
            )
        )
    blocks.append(Code(manifest_to_json(shortened), folded="The manifest"))
    return Section("manifest", "Manifest", blocks)


def reproduction_section(context: StudyReportContext) -> Section:
    """The commands that reproduce the study."""
    name = context.study.name
    commands = (
        f"bln-search run {name}.yaml --data DIR\nbln-search leaderboard {name}\n"
        f"bln-search manifest {name} --output {name}.json\nbln-search report {name} --output {name}.html\n"
    )
    text = f"Save the study file above as {name}.yaml; DIR is the folder of data sets."
    return Section("reproduce", "How to reproduce", [Paragraph(text), Code(commands)])


def _trial_identity_cells(trial: TrialRecord) -> list[str]:
    return [str(trial.id), trial.arm, trial.point_label or "–", str(trial.seed)]


def _trial_table_row(trial: TrialRecord) -> Row:
    checkpoint = trial.checkpoint
    cells = ["–", "–", "–"]
    if checkpoint is not None:
        cells = [str(checkpoint.epoch), f"{checkpoint.validation_loss:.4f}", checkpoint.file]
    return Row([*_trial_identity_cells(trial), trial.state.value, *cells])
