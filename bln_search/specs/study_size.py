"""The size of a study before anything is trained: trials, evaluations, and the undefined ones among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction
from bln_search.core.method import FEATURE_STATISTICS, Statistic
from bln_search.core.undefined_reasons import BESSEL_UNDEFINED, mini_batch_exceeds_slots_reason
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import (
    TrialSpec,
    list_planned_configurations_and_estimates,
    list_planned_trial_specs,
    make_representative_trial_specs,
    make_search_or_full_trial_spec,
    search_trial_epochs,
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
class StudySize:
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


def compute_study_size(study: StudySpec) -> StudySize:
    """The size of a study without problems."""
    trials = [
        trial for trial in list_planned_trial_specs(study) if trial.seed == study.seeds_per_point[0]
    ] or _lower_bound_trial_per_arm(study)
    points_per_spec = study.num_sampled_points // len(trials) if study.samples_points_during_run else 1
    trials_per_spec = len(study.seeds_per_point) * points_per_spec
    boundary = make_representative_trial_specs(study)
    most_epochs = max(trial.training.epochs for trial in boundary)
    if study.samples_points_during_run:
        trials = [_trial_with_epochs(trial, most_epochs, study) for trial in trials]
    best = _largest_boundary_trial_per_arm(study, boundary) if study.trains_best_points_after_search else []
    undefined = dict.fromkeys(
        evaluation
        for trial in (boundary if study.trains_best_points_after_search else trials)
        for evaluation in list_undefined_evaluations(trial)
    )
    return StudySize(
        trials=len(trials) * trials_per_spec + study.num_best_point_trials,
        sampled=study.samples_points_during_run,
        evaluations=sum(trial.num_evaluations_per_split for trial in trials) * trials_per_spec
        + sum(trial.num_evaluations_per_split for trial in best) * len(study.all_seeds),
        epochs=sum(trial.epochs for trial in trials) * trials_per_spec + most_epochs * len(best) * len(study.all_seeds),
        largest_width=max((trial.model.largest_specified_width for trial in boundary), default=0),
        undefined=tuple(undefined),
    )


def _trial_with_epochs(trial: TrialSpec, epochs: int, study: StudySpec) -> TrialSpec:
    """The trial with this number of epochs; one of a search with the horizon that belongs to it."""
    update: dict[str, object] = {"training": trial.training.model_copy(update={"epochs": epochs})}
    if trial.is_search_phase_trial:
        update["horizon"] = search_trial_epochs(study, epochs)
    return trial.model_copy(update=update)


def _largest_boundary_trial_per_arm(study: StudySpec, boundary: Sequence[TrialSpec]) -> list[TrialSpec]:
    """A full training of every arm, that at the bound of the space with most evaluations."""
    return [
        max(
            (trial for trial in boundary if trial.arm.label == arm.label),
            key=lambda trial: trial.num_evaluations_per_split,
        )
        for arm in study.arms
    ]


def _lower_bound_trial_per_arm(study: StudySpec) -> list[TrialSpec]:
    """One trial of every arm, at the lower bound of every dimension."""
    point = {key: dimension.representative_values[0] for key, dimension in (study.space or {}).items()}
    return [make_search_or_full_trial_spec(study, arm, point, study.seeds_per_point[0]) for arm in study.arms]


def list_undefined_evaluations(trial: TrialSpec) -> list[UndefinedEvaluation]:
    """The undefined evaluations of a trial. Those of BN and MBN are known only when the network is built."""
    undefined = []
    for configuration, estimate in list_planned_configurations_and_estimates(trial):
        for batch_size in trial.inference_batch_sizes:
            reason = _find_undefined_reason(trial, configuration, estimate, batch_size)
            if reason is not None:
                name = None if estimate is None else str(estimate)
                undefined.append(UndefinedEvaluation(trial.arm.label, str(configuration), name, batch_size, reason))
    return undefined


def _find_undefined_reason(
    trial: TrialSpec, configuration: InferenceConfiguration, estimate: str | None, batch_size: int
) -> str | None:
    if estimate is None or not trial.arm.method.has_feature_statistics:
        return None
    m = trial.training.batch_size
    if m == 1 and trial.evaluation.correction is Correction.BESSEL:
        for statistic in (Statistic.BATCH_DEVIATION, Statistic.FEATURE_DEVIATION):
            if configuration.source_of(statistic).reads_population:
                return f"{statistic}: {BESSEL_UNDEFINED}"
    reads_feature = any(configuration.source_of(statistic).reads_population for statistic in FEATURE_STATISTICS)
    if trial.evaluation.per_slot and reads_feature and m != 1 and batch_size > m:
        return mini_batch_exceeds_slots_reason(m, batch_size)
    return None
