"""Trials and what failed, the manifest, and how to get it all again."""

from __future__ import annotations

from collections import Counter

from bln_search.reports.manifest import manifest_json
from bln_search.reports.page.blocks import MOST_ROWS, Block, Code, Column, Kind, Paragraph, Row, Section, Table
from bln_search.reports.page.context import Material
from bln_search.reports.protocols import TrialFacts

_COLUMNS = (
    Column("Trial", Kind.NUMBER),
    Column("Arm"),
    Column("Parameters"),
    Column("Seed", Kind.NUMBER),
    Column("State"),
    Column("Kept epoch", Kind.NUMBER),
    Column("Validation loss", Kind.NUMBER),
    Column("Checkpoint"),
)
_REASONS = (Column("Trial", Kind.NUMBER), Column("Arm"), Column("Parameters"), Column("Seed"), Column("Why"))


def trials(material: Material) -> Section:
    """Every training run and where it stands; those that went wrong with their reason, first."""
    counts = Counter(one.state.value for one in material.trials)
    told = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items())) or "none yet"
    blocks: list[Block] = [Paragraph(f"{len(material.trials):,} trials: {told}.")]
    wrong = [Row([*_named(one), f"{one.state.value}: {one.reason}"]) for one in material.trials if one.reason]
    more = f"All of them: bln-search show {material.study.name} --format csv"
    if wrong:
        blocks.append(Table("Trials that did not end well", _REASONS, wrong, more=more))
    rows = [_trial(one) for one in material.trials]
    return Section("trials", "Trials", [*blocks, Table("Every trial", _COLUMNS, rows, more=more, folded=True)])


def manifest(material: Material) -> Section:
    """Seeds, versions, hardware and hashes; of a large study those of its first trials."""
    told = material.manifest
    data = told["data"]["sha256"] or "unknown"
    blocks: list[Block] = [
        Paragraph(
            f"Written at {told['written_at']} by bln-search {told['written_by'].get('bln_search')}, revision "
            f"{told['written_by'].get('git_revision') or 'unknown'}. SHA-256 of the data: {data}."
        )
    ]
    shown = dict(told)
    if len(told["trials"]) > MOST_ROWS:
        shown["trials"] = told["trials"][:MOST_ROWS]
        blocks.append(
            Paragraph(
                f"The first {MOST_ROWS:,} of {len(told['trials']):,} trials stand below. "
                f"All of them: bln-search manifest {material.study.name}"
            )
        )
    blocks.append(Code(manifest_json(shown), folded="The manifest"))
    return Section("manifest", "What it rests on", blocks)


def again(material: Material) -> Section:
    """The commands."""
    name = material.study.name
    text = (
        f"bln-search run {name}.yaml --data DIR\nbln-search leaderboard {name}\n"
        f"bln-search manifest {name} --to {name}.json\nbln-search report {name} --to {name}.html\n"
    )
    told = f"Save the study file above as {name}.yaml; DIR is the folder of data sets."
    return Section("again", "How to get it again", [Paragraph(told), Code(text)])


def _named(trial: TrialFacts) -> list[str]:
    return [str(trial.id), trial.arm, trial.parameters or "–", str(trial.seed)]


def _trial(trial: TrialFacts) -> Row:
    kept = trial.checkpoint
    figures = ["–", "–", "–"] if kept is None else [str(kept.epoch), f"{kept.validation_loss:.4f}", kept.file]
    return Row([*_named(trial), trial.state.value, *figures])
