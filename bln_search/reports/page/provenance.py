"""Sections of the trials, the manifest, and the commands that reproduce the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bln_search.reports.manifest import manifest_to_json
from bln_search.reports.page.blocks import MAX_TABLE_ROWS, Block, Code, Paragraph, Section, Table
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.records import TrialRecord


def trials_section(context: StudyReportContext) -> Section:
    """Every trial with its state; trials with a reason for their state first."""
    counts = Counter(trial.state.value for trial in context.trials)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items())) or "none yet"
    blocks: list[Block] = [Paragraph(f"{len(context.trials):,} trials: {states}.")]
    failed = [trial for trial in context.trials if trial.reason]
    more = f"All of them: bln-search show {context.study.name} --format csv"
    if failed:
        reasons = Column("Reason", [f"{trial.state.value}: {trial.reason}" for trial in failed])
        blocks.append(Table(FittedTable([*_trial_columns(failed), reasons], "Trials that did not finish"), more))
    columns = [*_trial_columns(context.trials), *_result_columns(context.trials)]
    return Section("trials", "Trials", [*blocks, Table(FittedTable(columns, "Every trial"), more, folded=True)])


def _trial_columns(trials: Sequence[TrialRecord]) -> list[Column]:
    return [
        Column("Trial", [str(trial.id) for trial in trials], CellKind.NUMBER),
        Column("Arm", [trial.arm for trial in trials]),
        Column("Parameters", [trial.point_label or "–" for trial in trials]),
        Column("Seed", [str(trial.seed) for trial in trials], CellKind.NUMBER),
    ]


def _result_columns(trials: Sequence[TrialRecord]) -> list[Column]:
    checkpoints = [trial.checkpoint for trial in trials]
    losses = ["–" if checkpoint is None else f"{checkpoint.validation_loss:.4f}" for checkpoint in checkpoints]
    epochs = ["–" if checkpoint is None else str(checkpoint.epoch) for checkpoint in checkpoints]
    return [
        Column("State", [trial.state.value for trial in trials]),
        Column("Kept epoch", epochs, CellKind.NUMBER),
        Column("Validation loss", losses, CellKind.NUMBER),
        Column("Checkpoint", ["–" if checkpoint is None else checkpoint.file for checkpoint in checkpoints]),
    ]


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
