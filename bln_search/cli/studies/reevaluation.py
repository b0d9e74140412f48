"""Command `reevaluate`: evaluate the networks of a study again and compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from bln_search.cli.exit_codes import ExitCode, report_nothing_written
from bln_search.cli.options import DatabaseOption, DataOption, FormatOption, StudyArgument
from bln_search.cli.output import Format, errors, print_rows, results
from bln_search.core.errors import DataError, LedgerError, ModelError
from bln_search.core.states import TrialState
from bln_search.settings import load_settings
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.execution.reevaluation import EvaluationComparison


@dataclass(frozen=True)
class TrialReproduction:
    """Comparison of a trial's new evaluations with the stored ones.

    Attributes:
        trial: Label of the trial.
        compared: Number of evaluations.
        identical: Number of bitwise equal ones.
        close: Number within the tolerance.
        different: Number of the others.
        largest_difference: Largest difference of a loss.
        first: The first difference.
        changed: How the environment differs from that of the training.
        problem: Why the trial could not be evaluated.
    """

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
        """Are all evaluations identical?"""
        return self.problem is None and self.identical == self.compared


def register(app: typer.Typer) -> None:
    """Add the commands."""
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
    from bln_search.execution.environment import ExecutionEnvironment

    environment = ExecutionEnvironment(
        data=data or settings.data_folder, cache=settings.cache, checkpoints=settings.checkpoint_store
    )
    with report_nothing_written(), closing(open_ledger(database or settings.database_url)) as ledger:
        found = ledger.studies.find(study)
        listed = ledger.trials.list_trials(found.id)
        trained = [trial for trial in listed if trial.checkpoint is not None and trial.freed_at is None]
        if trained:
            _check_data(trained[0], environment)
        lines = []
        for trial in trained:
            line = _reevaluate_trial(ledger, trial, environment)
            lines.append(line)
            if output is Format.TABLE:
                results.print(_summary_line(line), markup=False, highlight=False, soft_wrap=True)
    summary = _totals(lines, without_checkpoint=len(listed) - len(trained))
    if output is Format.JSON:
        document = {"study": found.name, "id": found.id, **summary, "trials": [asdict(line) for line in lines]}
        typer.echo(json.dumps(document, indent=1))
    elif output is Format.CSV:
        print_rows([asdict(line) for line in lines], tuple(TrialReproduction.__dataclass_fields__), output)
    else:
        results.print(_total_line(summary), markup=False, highlight=False, soft_wrap=True)
    if not any(line.compared or line.problem for line in lines):
        errors.print(f"study {found.name} has no evaluation yet; run it with `bln-search run`", soft_wrap=True)
        raise typer.Exit(ExitCode.FAILED)
    if not all(line.reproduced for line in lines):
        raise typer.Exit(ExitCode.FAILED)


def _check_data(trial: TrialRecord, environment: ExecutionEnvironment) -> None:
    """Raise DataError if the study's data are missing here: that is one error, not one for each trial."""
    from bln_search.execution.environment import prepared_data
    from bln_search.execution.reevaluation import replay_conditions

    assert trial.checkpoint is not None
    prepared_data(trial.spec.data, environment.data, environment.cache, replay_conditions(trial.checkpoint).device)


def _reevaluate_trial(ledger: Ledger, trial: TrialRecord, environment: ExecutionEnvironment) -> TrialReproduction:
    """Evaluate a trial again. Its stored evaluations are read now, so that memory holds one trial at a time."""
    from bln_search.execution.reevaluation import compare_evaluations, reevaluate_trial, replay_conditions

    assert trial.checkpoint is not None
    training_environment = replay_conditions(trial.checkpoint)
    try:
        stored = ledger.results.list_trial_evaluations(trial.id)
        if not stored and trial.state is not TrialState.FINISHED:
            return TrialReproduction(trial.spec.label, changed=training_environment.changed)
        again = reevaluate_trial(trial.spec, trial.checkpoint, environment, training_environment)
    except (DataError, ModelError, LedgerError) as error:
        return TrialReproduction(trial.spec.label, changed=training_environment.changed, problem=str(error))
    compared = compare_evaluations(stored, again, same_conditions=training_environment.changed is None)
    return _trial_reproduction(trial.spec.label, compared, training_environment.changed)


def _trial_reproduction(label: str, compared: Sequence[EvaluationComparison], changed: str | None) -> TrialReproduction:
    from bln_search.execution.reevaluation import ReplayVerdict, largest_loss_difference

    counts = {verdict: sum(each.verdict is verdict for each in compared) for verdict in ReplayVerdict}
    differing = [each for each in compared if each.verdict is not ReplayVerdict.IDENTICAL]
    first = None
    if differing:
        key = differing[0].key
        estimate = f" {key.estimate}" if key.estimate else ""
        first = f"{key.configuration}{estimate} at {key.batch_size} on {key.split}: {differing[0].differing_fields}"
    return TrialReproduction(
        label,
        len(compared),
        counts[ReplayVerdict.IDENTICAL],
        counts[ReplayVerdict.CLOSE],
        counts[ReplayVerdict.DIFFERENT],
        largest_loss_difference(compared),
        first,
        changed,
    )


def _summary_line(line: TrialReproduction) -> str:
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


def _totals(lines: Sequence[TrialReproduction], without_checkpoint: int) -> dict[str, int | float | None]:
    differences = [line.largest_difference for line in lines if line.largest_difference is not None]
    return {
        "compared": sum(line.compared for line in lines),
        "identical": sum(line.identical for line in lines),
        "close": sum(line.close for line in lines),
        "different": sum(line.different for line in lines),
        "largest_difference": max(differences, default=None),
        "not_reproduced": sum(line.problem is not None for line in lines),
        "without_checkpoint": without_checkpoint,
    }


def _total_line(summary: dict[str, int | float | None]) -> str:
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
