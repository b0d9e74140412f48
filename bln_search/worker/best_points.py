"""Trains the best point of each arm with all seeds after the search of the arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bln_search.search.outcomes import find_point_outcome
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.space import Point
from bln_search.specs.trial import make_full_trial_spec
from bln_search.storage.ledger import Ledger

_Points = Sequence[Sequence[SampledTrial]]


class BestPointTrialCreator:
    """Adds the full trainings of the best point of each arm to the ledger, once; none unless the study wants them.

    The ledger is the only state: an arm that has a full training is done. The best point is the one of the lowest
    objective among the points whose trials are finished, the first one of several.

    Args:
        ledger: Ledger with the study.
        study: The study.
        has_all_points_of_arm: Whether an arm has all points of its search; their trials may still be open.
    """

    def __init__(self, ledger: Ledger, study: StudyRecord, has_all_points_of_arm: Callable[[str], bool]) -> None:
        self.ledger, self.study_id, self.spec = ledger, study.id, study.spec
        self.has_all_points_of_arm = has_all_points_of_arm
        self._open_arms: set[str] = set()
        self._has_news = True
        if self.spec.trains_best_points_after_search:
            done = {trial.arm for trial in ledger.trials.list_trials(study.id) if not trial.is_search_phase_trial}
            self._open_arms = {arm.label for arm in self.spec.arms} - done

    @property
    def num_arms_without_best_point(self) -> int:
        """The number of arms whose best point is not chosen yet."""
        return len(self._open_arms)

    @property
    def is_exhausted(self) -> bool:
        """Whether no best point will be added in this run."""
        return not any(self.has_all_points_of_arm(arm) for arm in self._open_arms)

    def note_trial_end(self) -> None:
        """A trial has ended, so that the search of an arm may have ended too."""
        self._has_news = True

    def add_next_best_point_trials(self) -> list[TrialRecord]:
        """The trials of the best point of an arm whose search has ended now; empty where there is none."""
        if not self._has_news or not self._open_arms:
            return []
        points = self.ledger.trials.list_sampled_trials_grouped_by_point(self.study_id)
        for arm in sorted(filter(self.has_all_points_of_arm, self._open_arms)):
            trials = self._add_trials_of_best_point(arm, [trials for trials in points if trials[0].trial.arm == arm])
            if trials:
                return trials
        self._has_news = False
        return []

    def _add_trials_of_best_point(self, label: str, points: _Points) -> list[TrialRecord]:
        """Add the trials of the best point of an arm; none while one of its trials is open, or without a best point."""
        assert self.spec.search is not None
        outcomes = [find_point_outcome(trials, self.spec.search.objectives) for trials in points]
        if not points or None in outcomes:
            return []
        self._open_arms.remove(label)
        values = [outcome.values[0] for outcome in outcomes if outcome is not None and outcome.values is not None]
        if not values:
            reason = "no point has a finished trial, so there is no best point to train"
            self.ledger.studies.record_arm_search_with_too_few_points(self.study_id, label, reason)
            return []
        best = next(
            trials
            for trials, outcome in zip(points, outcomes, strict=True)
            if outcome is not None and outcome.values == [min(values)]
        )
        return self._add_full_trials(label, best[0].trial.parameters or {})

    def _add_full_trials(self, label: str, parameters: Point) -> list[TrialRecord]:
        arm = next(arm for arm in self.spec.arms if arm.label == label)
        point = {key: parameters[key] for key in self.spec.space or {}}
        specs = [make_full_trial_spec(self.spec, arm, point, seed) for seed in self.spec.all_seeds]
        return self.ledger.trials.add_trials_of_new_point(self.study_id, specs) or []
