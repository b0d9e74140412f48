"""Command `verify`: evaluate the networks of a study again and compare the results with the stored ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from bln_search.cli import options
from bln_search.cli.exit_codes import ExitCode, report_nothing_written_on_interrupt
from bln_search.cli.output import RecordsFormat, print_line, print_note
from bln_search.cli.records import Record, print_records
from bln_search.cli.sources.opening import open_database_ignoring_service
from bln_search.core.errors import DataError, LedgerError, ModelError
from bln_search.core.states import TrialState
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.ledger import Ledger

if TYPE_CHECKING:
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.execution.reevaluation import EvaluationComparison

Summary = dict[str, int | float | str | None]
"""Totals over the trials of a study, and the verdict."""


class VerificationVerdict(StrEnum):
    """The result of comparing new evaluations with the stored ones.

    Members:
        IDENTICAL: All evaluations are bitwise equal.
        WITHIN_TOLERANCE: Some differ within the tolerance on another device or hardware, or by another version of torch
            or other code of bln-search.
        DIFFERENT: Some differ more, or a trial could not be evaluated.
    """

    IDENTICAL = "identical"
    WITHIN_TOLERANCE = "within_tolerance"
    DIFFERENT = "different"


@dataclass(frozen=True)
class TrialReevaluation:
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
    def trial_verdict(self) -> VerificationVerdict:
        """The result for the trial."""
        if self.problem is not None or self.different:
            return VerificationVerdict.DIFFERENT
        return VerificationVerdict.WITHIN_TOLERANCE if self.close else VerificationVerdict.IDENTICAL


def verify(
    study: options.StudyArgument,
    data: options.DataOption = None,
    database: options.DatabaseOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    accept_code_change: options.AcceptCodeChangeOption = False,
) -> None:
    """Evaluate every network of a study again from its checkpoint and compare the results with the stored ones bitwise.

    Nothing is written except an accepted change of code. The exit code is 0 if all results are identical. It is also 0
    if losses differ by less than the tolerance on another device or hardware, or by another version of torch or other
    code of bln-search. Otherwise it is 1.
    """
    settings = load_settings()
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.worker.study_code import check_code_of_study

    environment = ExecutionEnvironment(
        data=data or settings.data_folder, cache=settings.cache, checkpoints=settings.checkpoint_store
    )
    reproductions = []
    with report_nothing_written_on_interrupt(), open_database_ignoring_service(database, settings) as ledger:
        study_record = ledger.studies.get_by_name_or_id(study)
        study_record.check_has_no_external_results()
        check_code_of_study(ledger, study_record, accept_change=accept_code_change)
        trials = ledger.trials.list_trials(study_record.id)
        trials_with_network = [trial for trial in trials if trial.checkpoint is not None and trial.freed_at is None]
        if trials_with_network:
            _check_data_set_present(trials_with_network[0], environment)
        for trial in trials_with_network:
            reproductions.append(_reevaluate_and_compare_trial(ledger, trial, environment))
            if output_format is RecordsFormat.TABLE:
                print_line(_format_trial_line(reproductions[-1]))
    summary = _sum_trial_verifications(reproductions, without_checkpoint=len(trials) - len(trials_with_network))
    _print_verification(study_record, summary, reproductions, output_format)
    if not any(reproduction.compared or reproduction.problem for reproduction in reproductions):
        print_note(f"study {study_record.name} has no evaluation yet; run it with `bln-search run`")
        raise typer.Exit(ExitCode.FAILED)
    if summary["verdict"] == VerificationVerdict.DIFFERENT:
        raise typer.Exit(ExitCode.FAILED)


def _print_verification(
    study: StudyRecord, summary: Summary, reproductions: Sequence[TrialReevaluation], output_format: RecordsFormat
) -> None:
    """Print the totals after the lines of the trials; JSON is one document of both."""
    records: list[Record] = [{**asdict(trial), "verdict": trial.trial_verdict} for trial in reproductions]
    if output_format is RecordsFormat.JSON:
        document = {"study": study.name, "id": study.id, **summary, "trials": records}
        typer.echo(json.dumps(document, indent=1))
    elif output_format is not RecordsFormat.TABLE:
        print_records(records, (*TrialReevaluation.__dataclass_fields__, "verdict"), output_format)
    else:
        print_line(_format_total_line(summary))


def _check_data_set_present(trial: TrialRecord, environment: ExecutionEnvironment) -> None:
    """Raise DataError if the data set is missing, once instead of for each trial."""
    from bln_search.execution.environment import load_and_prepare_data
    from bln_search.execution.reevaluation import choose_reevaluation_environment

    assert trial.checkpoint is not None
    conditions = choose_reevaluation_environment(trial.spec, trial.checkpoint)
    load_and_prepare_data(trial.spec.data, environment.data, environment.cache, conditions.device)


def _reevaluate_and_compare_trial(
    ledger: Ledger, trial: TrialRecord, environment: ExecutionEnvironment
) -> TrialReevaluation:
    """Evaluate a trial again. Reads the stored evaluations of this trial only, to bound memory."""
    from bln_search.execution.reevaluation import choose_reevaluation_environment, compare_evaluations, reevaluate_trial

    assert trial.checkpoint is not None
    training_environment = choose_reevaluation_environment(trial.spec, trial.checkpoint)
    try:
        stored = ledger.results.list_trial_evaluations_with_outcomes(trial.id)
        if not stored and trial.state is not TrialState.FINISHED:
            return TrialReevaluation(trial.spec.label, changed=training_environment.changed)
        repeated = reevaluate_trial(trial.spec, trial.checkpoint, environment, training_environment)
    except (DataError, ModelError, LedgerError) as error:
        return TrialReevaluation(trial.spec.label, changed=training_environment.changed, problem=str(error))
    comparisons = compare_evaluations(stored, repeated, same_conditions=training_environment.changed is None)
    return _summarize_trial_comparisons(trial.spec.label, comparisons, training_environment.changed)


def _summarize_trial_comparisons(
    label: str, comparisons: Sequence[EvaluationComparison], changed: str | None
) -> TrialReevaluation:
    from bln_search.execution.reevaluation import ReproductionVerdict, find_largest_loss_difference

    counts = {
        verdict: sum(comparison.verdict is verdict for comparison in comparisons) for verdict in ReproductionVerdict
    }
    differing = [comparison for comparison in comparisons if comparison.verdict is not ReproductionVerdict.IDENTICAL]
    first = None
    if differing:
        key = differing[0].key
        estimate = f" {key.estimate}" if key.estimate else ""
        first = f"{key.configuration}{estimate} at {key.batch_size} on {key.split}: {differing[0].differing_fields}"
    return TrialReevaluation(
        label,
        len(comparisons),
        counts[ReproductionVerdict.IDENTICAL],
        counts[ReproductionVerdict.CLOSE],
        counts[ReproductionVerdict.DIFFERENT],
        find_largest_loss_difference(comparisons),
        first,
        changed,
    )


def _format_trial_line(trial: TrialReevaluation) -> str:
    changed = f" ({trial.changed})" if trial.changed else ""
    if trial.problem is not None:
        return f"{trial.trial}: not reproduced: {trial.problem}{changed}"
    if trial.trial_verdict is VerificationVerdict.IDENTICAL:
        return f"{trial.trial}: {trial.compared} evaluations, all identical{changed}"
    difference = "" if trial.largest_difference is None else f", by at most {trial.largest_difference:.3g}"
    close = f", {trial.close} close" if trial.close else ""
    return (
        f"{trial.trial}: {trial.compared} evaluations, {trial.identical} identical{close}, "
        f"{trial.different} different{difference}; first {trial.first}{changed}"
    )


def _sum_trial_verifications(reproductions: Sequence[TrialReevaluation], without_checkpoint: int) -> Summary:
    differences = [trial.largest_difference for trial in reproductions if trial.largest_difference is not None]
    verdicts = {trial.trial_verdict for trial in reproductions}
    return {
        "verdict": max(verdicts, key=list(VerificationVerdict).index, default=VerificationVerdict.IDENTICAL),
        **{
            name: sum(getattr(trial, name) for trial in reproductions)
            for name in ("compared", "identical", "close", "different")
        },
        "largest_difference": max(differences, default=None),
        "not_reproduced": sum(reproduction.problem is not None for reproduction in reproductions),
        "without_checkpoint": without_checkpoint,
    }


def _format_total_line(summary: Summary) -> str:
    from bln_search.execution.reevaluation import TOLERANCE

    text = f"{summary['compared']} evaluations compared, {summary['identical']} identical"
    if summary["close"]:
        text += f", {summary['close']} within {TOLERANCE:g}"
        text += " on another device, hardware or version of torch, or by other code"
    text += f", {summary['different']} different"
    if summary["largest_difference"] is not None:
        text += f", largest difference {summary['largest_difference']:.3g}"
    if summary["not_reproduced"]:
        text += f"; {summary['not_reproduced']} trials not reproduced"
    if summary["without_checkpoint"]:
        text += f"; {summary['without_checkpoint']} trials have no checkpoint"
    if summary["verdict"] == VerificationVerdict.WITHIN_TOLERANCE:
        text += "; reproduced within the tolerance, not bit for bit"
    return text
