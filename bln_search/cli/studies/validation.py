"""Command `validate`: check a study file."""

from __future__ import annotations

from functools import partial

from bln_search.cli.options import FormatOption, StudyFileArgument
from bln_search.cli.output import Format, print_table, results
from bln_search.cli.records import Record, print_records
from bln_search.cli.studies.progress.remarks import print_remarks
from bln_search.core.enums import Split
from bln_search.core.registry import plugin_models
from bln_search.specs import list_planned_trials, load_study, planned_inference_rows
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import boundary_trials

_TABLE_COLUMNS = ("arm", "method", "semantics", "seeds", "rows", "population")
_COLUMNS = (*_TABLE_COLUMNS, "trials", "evaluations")


def validate(file: StudyFileArgument, output_format: FormatOption = Format.TABLE) -> None:
    """Check a study file and print its arms and trials, without training."""
    study = load_study(file)
    from bln_search.data.catalog import find_entry

    if study.model.name in plugin_models():
        from bln_search.search.preflight import check_model_and_data  # imports torch, as the plugin does

        check_model_and_data(study)
    print_remarks(f"{study.data.name}: {remark}" for remark in find_entry(study.data.name).remarks)
    records = _arm_records(study)
    print_records(records, _COLUMNS, output_format, partial(_print_plan, study, records))


def _arm_records(study: StudySpec) -> list[Record]:
    """Return a record for each arm. The trials of sampled points are not known before the study runs."""
    planned = list_planned_trials(study)
    is_sampled = study.search is not None and study.has_sampled_points
    records: list[Record] = []
    for trial in {trial.arm.label: trial for trial in boundary_trials(study)}.values():
        trials = [candidate for candidate in planned if candidate.arm.label == trial.arm.label]
        evaluations = sum(candidate.num_evaluations_per_split for candidate in trials)
        records.append(
            {
                "arm": trial.arm.label,
                "method": trial.arm.method,
                "semantics": trial.arm.semantics,
                "seeds": len(study.seeds),
                "rows": len(planned_inference_rows(trial)) * len(trial.batch_sizes),
                "population": ", ".join(trial.estimates),
                "trials": None if is_sampled else len(trials),
                "evaluations": None if is_sampled else evaluations,
            }
        )
    return records


def _print_plan(study: StudySpec, records: list[Record]) -> None:
    print_table(records, _TABLE_COLUMNS, f"{study.name}: {study.title}")
    if study.search is not None and study.has_sampled_points:
        count = study.num_sampled_points * len(study.seeds)
        results.print(
            f"at most {count} trials, at points that {study.search.sampler} suggests, pruner {study.search.pruner}; "
            "the file is valid"
        )
        return
    trial_count, evaluation_count = (sum(int(str(record[name])) for record in records) for name in _COLUMNS[-2:])
    results.print(
        f"{trial_count} trials, {evaluation_count} evaluations on each of {_split_names(study)}"
        f"{_added_evaluations_text(study, evaluation_count)}; the file is valid"
    )


def _split_names(study: StudySpec) -> str:
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
