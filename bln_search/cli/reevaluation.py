"""The verb that evaluates a study's networks again and compares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from bln_search.cli.exit_codes import Exit, keeping_nothing
from bln_search.cli.output import Format, errors, results
from bln_search.cli.sources import DatabaseOption, StudyArgument
from bln_search.cli.studies import DataOption, FormatOption, print_rows
from bln_search.core.errors import DataError, LedgerError, ModelError
from bln_search.core.states import TrialState
from bln_search.settings import load_settings
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.trained import TrialResult, stored_evaluations, trial_results

if TYPE_CHECKING:
    from bln_search.execution.environment import Place
    from bln_search.execution.reevaluation import Compared


@dataclass(frozen=True)
class TrialLine:
    """A trial evaluated again: how many of its evaluations compare how. problem: why it could not be."""

    trial: str
    compared: int = 0
    identical: int = 0
    close: int = 0
    different: int = 0
    largest_difference: float | None = None
    first: str | None = None
    changed: str | None = None
    problem: str | None = None

    @property
    def reproduced(self) -> bool:
        """Is everything identical?"""
        return self.problem is None and self.identical == self.compared


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(reevaluate)


def reevaluate(
    study: StudyArgument,
    data: DataOption = None,
    database: DatabaseOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Evaluate every network of a study again from its checkpoint and compare with what is stored, bit for bit.

    Nothing is written. Exit code 0 only where everything is identical.
    """
    settings = load_settings()
    from bln_search.execution.environment import Place

    place = Place(data=data or settings.data_folder, cache=settings.cache, checkpoints=settings.checkpoint_store)
    with keeping_nothing(), closing(open_ledger(database or settings.database_url)) as ledger:
        found = ledger.find_study(study)
        listed = trial_results(ledger.engine, found.id)
        trained = [trial for trial in listed if trial.checkpoint is not None and trial.freed_at is None]
        if trained:
            _check_data(trained[0], place)
        lines = []
        for trial in trained:
            line = _again(ledger, trial, place)
            lines.append(line)
            if output is Format.TABLE:
                results.print(_told(line), markup=False, highlight=False, soft_wrap=True)
    summary = _summary(lines, without=len(listed) - len(trained))
    if output is Format.JSON:
        whole = {"study": found.name, "id": found.id, **summary, "trials": [asdict(line) for line in lines]}
        typer.echo(json.dumps(whole, indent=1))
    elif output is Format.CSV:
        print_rows([asdict(line) for line in lines], tuple(TrialLine.__dataclass_fields__), output)
    else:
        results.print(_told_summary(summary), markup=False, highlight=False, soft_wrap=True)
    if not any(line.compared or line.problem for line in lines):
        errors.print(f"study {found.name} has no evaluation yet; run it with `bln-search run`", soft_wrap=True)
        raise typer.Exit(Exit.FAILED)
    if not all(line.reproduced for line in lines):
        raise typer.Exit(Exit.FAILED)


def _check_data(trial: TrialResult, place: Place) -> None:
    """Raise DataError where the study's data are not here: that is one error, and no trial's fault."""
    from bln_search.execution.environment import prepared_data
    from bln_search.execution.reevaluation import circumstances

    assert trial.checkpoint is not None
    prepared_data(trial.spec.data, place.data, place.cache, circumstances(trial.checkpoint).device)


def _again(ledger: Ledger, trial: TrialResult, place: Place) -> TrialLine:
    """One trial; its stored evaluations are read now, and forgotten with the next one."""
    from bln_search.execution.reevaluation import circumstances, compare, evaluate_again

    assert trial.checkpoint is not None
    where = circumstances(trial.checkpoint)
    try:
        stored = stored_evaluations(ledger.engine, trial.id)
        if not stored and trial.state is not TrialState.FINISHED:
            return TrialLine(trial.spec.label, changed=where.changed)
        again = evaluate_again(trial.spec, trial.checkpoint, place, where)
    except (DataError, ModelError, LedgerError) as error:
        return TrialLine(trial.spec.label, changed=where.changed, problem=str(error))
    return _line(trial.spec.label, compare(stored, again, same=where.changed is None), where.changed)


def _line(label: str, compared: Sequence[Compared], changed: str | None) -> TrialLine:
    from bln_search.execution.reevaluation import Verdict, worst

    counted = {verdict: sum(one.verdict is verdict for one in compared) for verdict in Verdict}
    differing = [one for one in compared if one.verdict is not Verdict.IDENTICAL]
    first = None
    if differing:
        key = differing[0].key
        estimate = f" {key.estimate}" if key.estimate else ""
        first = f"{key.configuration}{estimate} at {key.batch_size} on {key.split}: {differing[0].what}"
    return TrialLine(
        label,
        len(compared),
        counted[Verdict.IDENTICAL],
        counted[Verdict.CLOSE],
        counted[Verdict.DIFFERENT],
        worst(compared),
        first,
        changed,
    )


def _told(line: TrialLine) -> str:
    changed = f" ({line.changed})" if line.changed else ""
    if line.problem is not None:
        return f"{line.trial}: not reproduced: {line.problem}{changed}"
    if line.reproduced:
        return f"{line.trial}: {line.compared} evaluations, all identical{changed}"
    by = "" if line.largest_difference is None else f", by {line.largest_difference:.3g} at most"
    close = f", {line.close} close" if line.close else ""
    return (
        f"{line.trial}: {line.compared} evaluations, {line.identical} identical{close}, {line.different} different{by}"
        f"; first {line.first}{changed}"
    )


def _summary(lines: Sequence[TrialLine], without: int) -> dict[str, int | float | None]:
    differences = [line.largest_difference for line in lines if line.largest_difference is not None]
    return {
        "compared": sum(line.compared for line in lines),
        "identical": sum(line.identical for line in lines),
        "close": sum(line.close for line in lines),
        "different": sum(line.different for line in lines),
        "largest_difference": max(differences, default=None),
        "not_reproduced": sum(line.problem is not None for line in lines),
        "without_checkpoint": without,
    }


def _told_summary(summary: dict[str, int | float | None]) -> str:
    from bln_search.execution.reevaluation import TOLERANCE

    text = f"{summary['compared']} evaluations compared, {summary['identical']} identical"
    if summary["close"]:
        text += f", {summary['close']} within {TOLERANCE:g} on another device, hardware or version of torch"
    text += f", {summary['different']} different"
    if summary["largest_difference"] is not None:
        text += f", largest difference {summary['largest_difference']:.3g}"
    if summary["not_reproduced"]:
        text += f"; {summary['not_reproduced']} trials not reproduced"
    if summary["without_checkpoint"]:
        text += f"; {summary['without_checkpoint']} trials have no checkpoint"
    return text
