"""The estimated duration of a study, for `validate --estimate-time`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bln_search.cli.output import RecordsFormat, print_records_table, results
from bln_search.cli.records import Record, print_record, print_records
from bln_search.cli.studies.progress.remaining_time import format_seconds

if TYPE_CHECKING:
    from bln_search.execution.time_estimate.estimate import GroupEstimate, TimeEstimate

_ROUNDED = 10
"""Seconds from which durations are rounded to whole seconds."""

_PARTS = ("network", "training", "validation", "population", "fine_tuning", "evaluation", "probes", "streams")
_TABLE_COLUMNS = ("arm", "parameters", "m", "step", "epoch", "trial", "trials", "all trials", "GPU memory")
_COLUMNS = (
    *("arm", "method", "parameters", "batch_size", "trials", "epochs_min", "epochs_max", "steps_per_epoch"),
    *(
        "seconds_per_step_median",
        "seconds_per_step_lower_quartile",
        "seconds_per_step_upper_quartile",
        "steps_measured",
    ),
    *("seconds_per_epoch", "seconds_per_trial", "seconds_of_trials"),
    *(f"seconds_of_{part}_per_trial" for part in _PARTS),
    *("peak_memory_bytes", "seconds_measured"),
)


def print_time_estimate(estimate: TimeEstimate, output_format: RecordsFormat) -> None:
    """Print an estimate. JSON is one object with a record for each group; CSV and JSON Lines have these records."""
    if output_format is RecordsFormat.TABLE:
        _print_time_estimate_text(estimate)
    elif output_format is RecordsFormat.JSON:
        print_record(time_estimate_to_record(estimate), output_format, lambda: None)
    else:
        print_records(
            [trial_group_estimate_to_record(estimate, group) for group in estimate.groups], _COLUMNS, output_format
        )


def time_estimate_to_record(estimate: TimeEstimate) -> Record:
    """The estimate with units in the names of its fields."""
    return {
        "study": estimate.study.name,
        "device": estimate.device,
        "hardware": estimate.hardware,
        "threads_per_trial": estimate.threads,
        "inputs": "data set" if estimate.inputs.missing is None else "synthetic",
        "trials": len(estimate.trials),
        "workers": estimate.workers,
        "slowdown_factor": estimate.slowdown,
        "seconds_of_process_start": estimate.process_start,
        "seconds_of_loading": estimate.inputs.loading,
        "seconds_of_trials": estimate.seconds_one_after_another,
        "seconds_of_study": estimate.seconds_with_workers,
        "seconds_per_group_at_most": estimate.seconds_per_group,
        "left_out": list(estimate.excluded_work),
        "arms": [trial_group_estimate_to_record(estimate, group) for group in estimate.groups],
    }


def trial_group_estimate_to_record(estimate: TimeEstimate, group: GroupEstimate) -> Record:
    """The estimate of trials that cost the same for each step."""
    trial, step = group.group.representative, group.times.step
    epochs = [member.epochs for member in group.group.trials]
    return {
        "arm": group.group.joined_arm_labels,
        "method": str(trial.arm.method),
        "parameters": group.group.common_point_label,
        "batch_size": trial.training.batch_size,
        "trials": len(group.trials),
        "epochs_min": min(epochs),
        "epochs_max": max(epochs),
        "steps_per_epoch": estimate.inputs.count_steps_per_epoch(trial.training.batch_size),
        "seconds_per_step_median": step.median,
        "seconds_per_step_lower_quartile": step.lower,
        "seconds_per_step_upper_quartile": step.upper,
        "steps_measured": step.count,
        "seconds_per_epoch": group.seconds_per_epoch,
        "seconds_per_trial": group.seconds_per_trial,
        "seconds_of_trials": sum(seconds.total_seconds for seconds in group.trials),
        **{f"seconds_of_{part}_per_trial": group.mean_seconds_of_part(part) for part in _PARTS},
        "peak_memory_bytes": group.peak_memory,
        "seconds_measured": group.measuring,
    }


def _print_time_estimate_text(estimate: TimeEstimate) -> None:
    print_records_table([_group_table_row(group) for group in estimate.groups], _TABLE_COLUMNS, "estimated time")
    workers = "1 worker" if estimate.workers == 1 else f"{estimate.workers} workers"
    results.print(
        f"about {format_seconds(estimate.seconds_with_workers)} with {workers}: {len(estimate.trials)} trials on "
        f"{estimate.device} ({estimate.hardware}), {format_seconds(estimate.seconds_one_after_another)} one after "
        "another"
    )
    if estimate.slowdown > 1:
        results.print(
            f"{workers} share cores or GPUs: each trial is assumed to take {estimate.slowdown:.3g} times as long"
        )
    if estimate.inputs.missing is not None:
        results.print(f"inputs: synthetic, {estimate.inputs.missing}", markup=False)
    else:
        results.print(f"inputs: the data set {estimate.study.data.name}")
    limit = format_seconds(estimate.seconds_per_group)
    results.print(
        f"measured for at most {limit} each; what had begun was finished. Median steps, quartiles in brackets"
    )
    for text in estimate.excluded_work:
        results.print(f"not included: {text}")


def _group_table_row(group: GroupEstimate) -> Record:
    step = group.times.step
    return {
        "arm": group.group.joined_arm_labels,
        "parameters": group.group.common_point_label,
        "m": group.group.representative.training.batch_size,
        "step": f"{_format_milliseconds(step.median)} [{_format_milliseconds(step.lower)}, "
        f"{_format_milliseconds(step.upper)}] ms",
        "epoch": _format_duration(group.seconds_per_epoch),
        "trial": _format_duration(group.seconds_per_trial),
        "trials": len(group.trials),
        "all trials": _format_duration(sum(seconds.total_seconds for seconds in group.trials)),
        "GPU memory": None if group.peak_memory is None else f"{group.peak_memory / 2**20:.0f} MiB",
    }


def _format_duration(seconds: float) -> str:
    return format_seconds(seconds) if seconds >= _ROUNDED else f"{seconds:.2g} s"


def _format_milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}"
