"""The size of a study before anything is trained: trials, evaluations, and the undefined ones among them."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.configuration import FEATURE_STATISTICS, InferenceConfiguration, Method, Statistic
from bln_search.core.enums import Correction
from bln_search.core.undefined_reasons import BESSEL_UNDEFINED, too_few_slots_reason
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import (
    TrialSpec,
    boundary_trials,
    list_planned_trials,
    make_trial_spec,
    planned_inference_rows,
)


@dataclass(frozen=True)
class UndefinedEvaluation:
    """Evaluations of an arm that are undefined, and the reason."""

    arm: str
    configuration: str
    estimate: str | None
    batch_size: int
    reason: str


@dataclass(frozen=True)
class StudyPlan:
    """The size of a study.

    Attributes:
        trials: Number of trials; an upper bound if points are sampled.
        sampled: Points are sampled.
        evaluations: Evaluations of each split under every condition, summed over trials.
        epochs: Epochs, summed over trials.
        largest_width: Units of the widest layer.
        undefined: Evaluations that are undefined.
    """

    trials: int
    sampled: bool
    evaluations: int
    epochs: int
    largest_width: int
    undefined: tuple[UndefinedEvaluation, ...]


def plan_study(study: StudySpec) -> StudyPlan:
    """The size of a study without problems."""
    trials = [trial for trial in list_planned_trials(study) if trial.seed == study.seeds[0]] or _lower_bound_trials(
        study
    )
    trials_per_spec = len(study.seeds) * (study.num_sampled_points // len(trials) if study.has_sampled_points else 1)
    evaluations = sum(trial.num_evaluations_per_split for trial in trials)
    boundary = boundary_trials(study)
    if study.has_sampled_points:
        most_epochs = max(trial.training.epochs for trial in boundary)
        trials = [_with_epochs(trial, most_epochs) for trial in trials]
    undefined = dict.fromkeys(evaluation for trial in trials for evaluation in undefined_evaluations(trial))
    return StudyPlan(
        trials=len(trials) * trials_per_spec,
        sampled=study.has_sampled_points,
        evaluations=evaluations * trials_per_spec,
        epochs=sum(trial.training.epochs for trial in trials) * trials_per_spec,
        largest_width=max((trial.model.largest_width for trial in boundary), default=0),
        undefined=tuple(undefined),
    )


def _with_epochs(trial: TrialSpec, epochs: int) -> TrialSpec:
    """The trial with this number of epochs."""
    return trial.model_copy(update={"training": trial.training.model_copy(update={"epochs": epochs})})


def _lower_bound_trials(study: StudySpec) -> list[TrialSpec]:
    """One trial of every arm, at the lower bound of every dimension."""
    point = {key: dimension.boundary_values[0] for key, dimension in (study.space or {}).items()}
    return [make_trial_spec(study, arm, point, study.seeds[0]) for arm in study.arms]


def undefined_evaluations(trial: TrialSpec) -> list[UndefinedEvaluation]:
    """The undefined evaluations of a trial. Those of BN and MBN are known only when the network is built."""
    undefined = []
    for configuration, estimate in planned_inference_rows(trial):
        for batch_size in trial.batch_sizes:
            reason = _undefined_reason(trial, configuration, estimate, batch_size)
            if reason is not None:
                name = None if estimate is None else str(estimate)
                undefined.append(UndefinedEvaluation(trial.arm.label, str(configuration), name, batch_size, reason))
    return undefined


def _undefined_reason(
    trial: TrialSpec, configuration: InferenceConfiguration, estimate: str | None, batch_size: int
) -> str | None:
    if estimate is None or trial.arm.method not in (Method.BLN, Method.LN):
        return None
    m = trial.training.batch_size
    if m == 1 and trial.evaluation.correction is Correction.BESSEL:
        for statistic in (Statistic.BATCH_DEVIATION, Statistic.FEATURE_DEVIATION):
            if configuration.source(statistic).reads_population:
                return f"{statistic}: {BESSEL_UNDEFINED}"
    reads_feature = any(configuration.source(statistic).reads_population for statistic in FEATURE_STATISTICS)
    if trial.evaluation.per_slot and reads_feature and m != 1 and batch_size > m:
        return too_few_slots_reason(m, batch_size)
    return None
