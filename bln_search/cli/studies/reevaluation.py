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
        compared: Number of compared evaluations.
        identical: Number of evaluations that are bitwise equal.
        close: Number of evaluations that differ within the tolerance.
        different: Number of evaluations that differ more.
        largest_difference: Largest difference of a loss.
        first: Description of the first difference.
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
    """Evaluate every network of a study again from its checkpoint and compare the results with the stored ones bitwise.

    Nothing is written. The exit code is 0 only if all results are identical.
    """
    settings = load_settings()
    from bln_search.execution.environment import ExecutionEnvironment

    environment = ExecutionEnvironment(
        data=data or settings.data_folder, cache=settings.cache, checkpoints=settings.checkpoint_store
    )
    with report_nothing_written(), closing(open_ledger(database or settings.database_url)) as ledger:
        study_record = ledger.studies.find(study)
        trials = ledger.trials.list_trials(study_record.id)
        trials_with_network = [trial for trial in trials if trial.checkpoint is not None and trial.freed_at is None]
        if trials_with_network:
            _check_data(trials_with_network[0], environment)
        reproductions = []
        for trial in trials_with_network:
            reproduction = _reevaluate_trial(ledger, trial, environment)
            reproductions.append(reproduction)
            if output is Format.TABLE:
                results.print(_summary_line(reproduction), markup=False, highlight=False, soft_wrap=True)
    summary = _totals(reproductions, without_checkpoint=len(trials) - len(trials_with_network))
    if output is Format.JSON:
        document = {
            "study": study_record.name,
            "id": study_record.id,
            **summary,
            "trials": [asdict(reproduction) for reproduction in reproductions],
        }
        typer.echo(json.dumps(document, indent=1))
    elif output is Format.CSV:
        print_rows(
            [asdict(reproduction) for reproduction in reproductions],
            tuple(TrialReproduction.__dataclass_fields__),
            output,
        )
    else:
        results.print(_total_line(summary), markup=False, highlight=False, soft_wrap=True)
    if not any(reproduction.compared or reproduction.problem for reproduction in reproductions):
        errors.print(f"study {study_record.name} has no evaluation yet; run it with `bln-search run`", soft_wrap=True)
        raise typer.Exit(ExitCode.FAILED)
    if not all(reproduction.reproduced for reproduction in reproductions):
        raise typer.Exit(ExitCode.FAILED)


def _check_data(trial: TrialRecord, environment: ExecutionEnvironment) -> None:
    """Raise DataError if the data set is missing, once instead of for each trial."""
    from bln_search.execution.environment import prepared_data
    from bln_search.execution.reevaluation import replay_conditions

    assert trial.checkpoint is not None
    prepared_data(trial.spec.data, environment.data, environment.cache, replay_conditions(trial.checkpoint).device)


def _reevaluate_trial(ledger: Ledger, trial: TrialRecord, environment: ExecutionEnvironment) -> TrialReproduction:
    """Evaluate a trial again. Reads the stored evaluations of this trial only, to bound memory."""
    from bln_search.execution.reevaluation import compare_evaluations, reevaluate_trial, replay_conditions

    assert trial.checkpoint is not None
    training_environment = replay_conditions(trial.checkpoint)
    try:
        stored = ledger.results.list_trial_evaluations(trial.id)
        if not stored and trial.state is not TrialState.FINISHED:
            return TrialReproduction(trial.spec.label, changed=training_environment.changed)
        repeated = reevaluate_trial(trial.spec, trial.checkpoint, environment, training_environment)
    except (DataError, ModelError, LedgerError) as error:
        return TrialReproduction(trial.spec.label, changed=training_environment.changed, problem=str(error))
    comparisons = compare_evaluations(stored, repeated, same_conditions=training_environment.changed is None)
    return _trial_reproduction(trial.spec.label, comparisons, training_environment.changed)


def _trial_reproduction(
    label: str, comparisons: Sequence[EvaluationComparison], changed: str | None
) -> TrialReproduction:
    from bln_search.execution.reevaluation import ReplayVerdict, largest_loss_difference

    counts = {verdict: sum(comparison.verdict is verdict for comparison in comparisons) for verdict in ReplayVerdict}
    differing = [comparison for comparison in comparisons if comparison.verdict is not ReplayVerdict.IDENTICAL]
    first = None
    if differing:
        key = differing[0].key
        estimate = f" {key.estimate}" if key.estimate else ""
        first = f"{key.configuration}{estimate} at {key.batch_size} on {key.split}: {differing[0].differing_fields}"
    return TrialReproduction(
        label,
        len(comparisons),
        counts[ReplayVerdict.IDENTICAL],
        counts[ReplayVerdict.CLOSE],
        counts[ReplayVerdict.DIFFERENT],
        largest_loss_difference(comparisons),
        first,
        changed,
    )


def _summary_line(reproduction: TrialReproduction) -> str:
    changed_text = f" ({reproduction.changed})" if reproduction.changed else ""
    if reproduction.problem is not None:
        return f"{reproduction.trial}: not reproduced: {reproduction.problem}{changed_text}"
    if reproduction.reproduced:
        return f"{reproduction.trial}: {reproduction.compared} evaluations, all identical{changed_text}"
    difference = (
        "" if reproduction.largest_difference is None else f", by at most {reproduction.largest_difference:.3g}"
    )
    close_text = f", {reproduction.close} close" if reproduction.close else ""
    return (
        f"{reproduction.trial}: {reproduction.compared} evaluations, {reproduction.identical} identical{close_text}, "
        f"{reproduction.different} different{difference}; first {reproduction.first}{changed_text}"
    )


def _totals(reproductions: Sequence[TrialReproduction], without_checkpoint: int) -> dict[str, int | float | None]:
    differences = [
        reproduction.largest_difference for reproduction in reproductions if reproduction.largest_difference is not None
    ]
    return {
        "compared": sum(reproduction.compared for reproduction in reproductions),
        "identical": sum(reproduction.identical for reproduction in reproductions),
        "close": sum(reproduction.close for reproduction in reproductions),
        "different": sum(reproduction.different for reproduction in reproductions),
        "largest_difference": max(differences, default=None),
        "not_reproduced": sum(reproduction.problem is not None for reproduction in reproductions),
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
