"""Trials that cost the same: equal in everything but values that do not change the duration of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from bln_search.execution.cost_group_key import cost_group_key
from bln_search.specs.sections.search import num_points_per_arm
from bln_search.specs.sections.space import format_point
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import (
    TrialSpec,
    list_planned_trial_specs,
    make_representative_trial_specs,
    make_search_or_full_trial_spec,
)


@dataclass(frozen=True)
class CostGroup:
    """Trials that cost the same for each step.

    Attributes:
        trials: They differ in their seeds, epochs and neutral values.
    """

    trials: tuple[TrialSpec, ...]

    @property
    def representative(self) -> TrialSpec:
        """The trial that is measured."""
        return self.trials[0]

    @property
    def joined_arm_labels(self) -> str:
        """Labels of the arms."""
        return ", ".join(dict.fromkeys(trial.arm.label for trial in self.trials))

    @property
    def common_point_label(self) -> str:
        """The values of the space that all its trials have; empty if there are none."""
        first, *others = [trial.parameters or {} for trial in self.trials]
        return format_point({key: value for key, value in first.items() if all(o.get(key) == value for o in others)})


def list_expected_trials(study: StudySpec) -> tuple[TrialSpec, ...]:
    """The trials of a study in their order.

    Points that are sampled are not known before the study runs. Their trials are assumed at the bounds of the space,
    equally many at each.

    Raises:
        SpecError: The grid has too many points, or an arm cannot take a point.
    """
    if study.search is None or study.space is None or not study.samples_points_during_run:
        return (*list_planned_trial_specs(study), *_list_full_trials_at_bounds(study))
    points = num_points_per_arm(study.search, study.space)
    at_bounds = make_representative_trial_specs(study)
    trials = []
    for arm in study.arms:
        own = [
            make_search_or_full_trial_spec(study, arm, trial.parameters, trial.seed)
            for trial in at_bounds
            if trial.arm.label == arm.label
        ]
        trials += [
            trial.model_copy(update={"seed": seed})
            for trial in islice(cycle(own), points)
            for seed in study.seeds_per_point
        ]
    return (*trials, *_list_full_trials_at_bounds(study))


def _list_full_trials_at_bounds(study: StudySpec) -> tuple[TrialSpec, ...]:
    if not study.trains_best_points_after_search:
        return ()
    at_bounds = make_representative_trial_specs(study)
    first = {trial.arm.label: trial for trial in reversed(at_bounds)}
    return tuple(first[arm.label].model_copy(update={"seed": seed}) for arm in study.arms for seed in study.all_seeds)


def group_trials_by_cost(trials: Sequence[TrialSpec]) -> tuple[CostGroup, ...]:
    """Groups of trials that cost the same, in the order of their first trials."""
    groups: dict[str, list[TrialSpec]] = {}
    for trial in trials:
        groups.setdefault(cost_group_key(trial), []).append(trial)
    return tuple(CostGroup(tuple(group)) for group in groups.values())
