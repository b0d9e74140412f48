"""What a study stands for, before anything is trained: trials, evaluations, and those that can have no value."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.configuration import FEATURE_STATISTICS, InferenceConfiguration, Method, Source, Statistic
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.undefined_reasons import BESSEL, more_than_slots
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec, border_trials, planned_rows, resolve, trials_of


@dataclass(frozen=True)
class UndefinedCell:
    """Evaluations of an arm that will have no value, and why."""

    arm: str
    configuration: str
    estimate: str | None
    batch_size: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """trials: at most so many, where points are sampled. evaluations: of each trial, on each of two splits, summed."""

    trials: int
    sampled: bool
    evaluations: int
    epochs: int
    largest_width: int
    undefined: tuple[UndefinedCell, ...]


def plan_study(study: StudySpec) -> Plan:
    """The plan of a study that was found to be without problems."""
    trials = [trial for trial in trials_of(study) if trial.seed == study.seeds[0]] or _first_points(study)
    each = len(study.seeds) * (study.sampled_points // len(trials) if study.sampled else 1)
    cells = sum(len(planned_rows(trial)) * len(trial.batch_sizes) for trial in trials)
    borders = border_trials(study)
    if study.sampled:
        most = max(trial.training.epochs for trial in borders)
        trials = [_with_epochs(trial, most) for trial in trials]
    foreseen = dict.fromkeys(cell for trial in trials for cell in undefined_cells(trial))
    return Plan(
        trials=len(trials) * each,
        sampled=study.sampled,
        evaluations=cells * each,
        epochs=sum(trial.training.epochs for trial in trials) * each,
        largest_width=max((trial.model.largest_width for trial in borders), default=0),
        undefined=tuple(foreseen),
    )


def _with_epochs(trial: TrialSpec, epochs: int) -> TrialSpec:
    """The trial trained for so long."""
    return trial.model_copy(update={"training": trial.training.model_copy(update={"epochs": epochs})})


def _first_points(study: StudySpec) -> list[TrialSpec]:
    """One trial of every arm, at the first border of every dimension."""
    point = {key: dimension.ends[0] for key, dimension in (study.space or {}).items()}
    return [resolve(study, arm, point, study.seeds[0]) for arm in study.arms]


def undefined_cells(trial: TrialSpec) -> list[UndefinedCell]:
    """The evaluations of a trial known to have no value; of BN and MBN that shows only once the network is built."""
    cells = []
    for configuration, estimate in planned_rows(trial):
        for batch_size in trial.batch_sizes:
            reason = _undefined(trial, configuration, estimate, batch_size)
            if reason is not None:
                word = None if estimate is None else estimate.value
                cells.append(UndefinedCell(trial.arm.label, str(configuration), word, batch_size, reason))
    return cells


def _undefined(
    trial: TrialSpec, configuration: InferenceConfiguration, estimate: PopulationEstimate | None, batch_size: int
) -> str | None:
    if estimate is None or trial.arm.method not in (Method.BLN, Method.LN):
        return None
    m = trial.training.batch_size
    if m == 1 and trial.evaluation.correction is Correction.BESSEL:
        for statistic in (Statistic.BATCH_DEVIATION, Statistic.FEATURE_DEVIATION):
            if configuration.source(statistic) is Source.POPULATION:
                return f"{statistic}: {BESSEL}"
    reads_feature = Source.POPULATION in (configuration.source(statistic) for statistic in FEATURE_STATISTICS)
    if trial.evaluation.per_slot and reads_feature and m != 1 and batch_size > m:
        return more_than_slots(m, batch_size)
    return None
