"""Command `validate`: check a study file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bln_search.cli import options
from bln_search.cli.environment import make_execution_environment
from bln_search.cli.maintenance.data import print_note_if_data_set_is_missing
from bln_search.cli.output import RecordsFormat, print_note, print_records_table, results
from bln_search.cli.records import Record, print_records
from bln_search.cli.studies.time_estimate import print_time_estimate
from bln_search.core.enums import Split
from bln_search.core.names import format_count_with_noun
from bln_search.core.registry import MODELS
from bln_search.settings import load_settings
from bln_search.specs import list_planned_configurations_and_estimates, list_planned_trial_specs, load_study
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import count_trials_upper_bound, make_representative_trial_specs

if TYPE_CHECKING:
    from bln_search.execution.time_estimate.estimate import TimeEstimate

_TABLE_COLUMNS = ("arm", "method", "semantics", "seeds", "rows", "population")
_COLUMNS = (*_TABLE_COLUMNS, "trials", "evaluations")


EstimateOption = Annotated[
    bool, typer.Option("--estimate-time", help="Measure a few steps of each arm and estimate the duration.")
]
EstimateDataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help=options.add_environment_variable_to_help(
            "With --estimate-time: folder of data sets; random inputs if it does not hold the data set.", "data"
        ),
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--seconds-per-arm",
        min=0.1,
        metavar="SECONDS",
        help="With --estimate-time: time in which each arm is measured; by default 10.",
    ),
]


def validate(
    file: options.StudyFileArgument,
    estimate_study_time: EstimateOption = False,
    data: EstimateDataOption = None,
    device: options.DeviceOption = None,
    workers: options.WorkersOption = None,
    seconds_per_arm: SecondsOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
) -> None:
    """Check a study file and print its arms and trials.

    With --estimate-time it also measures a few training steps and evaluations of each arm on this device, and prints
    the estimated time of the study. Nothing is stored.
    """
    if not estimate_study_time:
        _check_no_estimate_options(
            {"--data": data, "--device": device, "--workers": workers, "--seconds-per-arm": seconds_per_arm}
        )
    study = load_study(file)
    from bln_search.data.catalog import get_catalog_entry

    if study.model.name in MODELS.plugins:
        from bln_search.search.preflight import check_model_fits_data  # imports torch, as the plugin does

        check_model_fits_data(study)
    entry, settings = get_catalog_entry(study.data.name), load_settings()
    for remark in entry.remarks:
        print_note(f"{study.data.name}: {remark}")
    print_note_if_data_set_is_missing(entry, data or settings.data_folder, settings.cache, study.data.own_options)
    if estimate_study_time and output_format is not RecordsFormat.TABLE:
        print_time_estimate(_estimate_study_time(study, data, device, workers, seconds_per_arm), output_format)
        return
    records = _list_arm_records(study)
    print_records(records, _COLUMNS, output_format, partial(_print_study_plan, study, records))
    if estimate_study_time:
        print_time_estimate(_estimate_study_time(study, data, device, workers, seconds_per_arm), output_format)


def _check_no_estimate_options(given_options: Mapping[str, object]) -> None:
    """Raise BadParameter for an option of the estimate that was given without it."""
    given = [name for name, value in given_options.items() if value is not None]
    if given:
        raise typer.BadParameter("without --estimate-time nothing is measured: add it", param_hint=", ".join(given))


def _estimate_study_time(
    study: StudySpec, data: Path | None, device: str | None, workers: int | None, seconds_per_arm: float | None
) -> TimeEstimate:
    from bln_search.execution.time_estimate.estimate import SECONDS_PER_GROUP, estimate_study_time
    from bln_search.search.preflight import check_model_fits_data

    check_model_fits_data(study)
    environment = make_execution_environment(load_settings(), data, device)
    return estimate_study_time(study, environment, workers, seconds_per_group=seconds_per_arm or SECONDS_PER_GROUP)


def _list_arm_records(study: StudySpec) -> list[Record]:
    """Return a record for each arm. Numbers that are not known before the study runs are None."""
    planned = list_planned_trial_specs(study)
    is_sampled = study.search is not None and study.samples_points_during_run
    records: list[Record] = []
    for trial in {trial.arm.label: trial for trial in make_representative_trial_specs(study)}.values():
        trials = [candidate for candidate in planned if candidate.arm.label == trial.arm.label]
        evaluations = sum(candidate.num_evaluations_per_split for candidate in trials)
        records.append(
            {
                "arm": trial.arm.label,
                "method": trial.arm.method,
                "semantics": trial.arm.semantics,
                "seeds": len(study.all_seeds),
                "rows": len(list_planned_configurations_and_estimates(trial)) * len(trial.inference_batch_sizes),
                "population": ", ".join(trial.population_estimates),
                "trials": None if is_sampled else len(trials) + study.num_best_point_trials // len(study.arms),
                "evaluations": None if is_sampled or study.trains_best_points_after_search else evaluations,
            }
        )
    return records


def _print_study_plan(study: StudySpec, records: list[Record]) -> None:
    print_records_table(records, _TABLE_COLUMNS, f"{study.name}: {study.title}")
    if study.search is not None and study.samples_points_during_run:
        count = count_trials_upper_bound(study)
        results.print(
            f"at most {count} trials, at points that {study.search.sampler} suggests, pruner {study.search.pruner}"
            f"{_final_trials_text(study)}; the file is valid"
        )
        return
    if study.trains_best_points_after_search:
        results.print(f"{count_trials_upper_bound(study)} trials{_final_trials_text(study)}; the file is valid")
        return
    trial_count, evaluation_count = (sum(int(str(record[name])) for record in records) for name in _COLUMNS[-2:])
    results.print(
        f"{trial_count} trials, {evaluation_count} evaluations on each of {_evaluated_split_names(study)}"
        f"{_added_evaluations_text(study, evaluation_count)}{_streams_text(study)}; the file is valid"
    )


def _streams_text(study: StudySpec) -> str:
    """The streams of each trial; empty without."""
    if study.stream is None:
        return ""
    arms = format_count_with_noun(len(study.arms_of_adaptation), "arm", "arms")
    orders = format_count_with_noun(study.stream.orders, "order", "orders")
    return f"; each network adapts in {arms} over {orders} of a stream"


def _final_trials_text(study: StudySpec) -> str:
    """The part of the trials in which the best point of each arm is trained; empty without."""
    if not study.trains_best_points_after_search:
        return ""
    return f", of which {study.num_best_point_trials} train the best point of each arm with all seeds"


def _evaluated_split_names(study: StudySpec) -> str:
    """The evaluated splits; conditions are not evaluated on train."""
    if Split.TRAIN not in study.evaluation.evaluated_splits:
        return "validation and test"
    return (
        "validation, test and, on clean images, train" if study.evaluation.conditions else "validation, test and train"
    )


def _added_evaluations_text(study: StudySpec, evaluations: int) -> str:
    """The part of the evaluations that the conditions of the study add; empty without conditions."""
    conditions = len(study.evaluation.conditions)
    if not conditions:
        return ""
    names = "1 condition" if conditions == 1 else f"{conditions} conditions"
    return f", of which {names} add {evaluations * conditions // (conditions + 1)}"
