"""The sampled points of a study: suggested by a sampler, stored in the ledger, reported back when they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import repeat

from bln_search.core.errors import SpecError
from bln_search.core.records import EpochRecord
from bln_search.search.arm_sampler import ArmPointSampler
from bln_search.search.brent_sampler import BrentSampler
from bln_search.search.optuna.sampler import OptunaPointSampler
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.sections.search import Objective, Pruner, Sampler, SearchSpec, num_points_per_arm
from bln_search.specs.sections.space import Point, Space, iter_grid_points, list_values_if_finite, num_grid_points
from bln_search.specs.trial import LARGEST_GRID, make_search_or_full_trial_spec
from bln_search.storage.ledger import Ledger

_MAX_REPEATS = 20
"""Number of known or rejected points in a row after which a sampler counts as having no new point."""


class StudyPointSampler:
    """Samples the points of every arm, as many as the study specifies; none for a study without a sampler."""

    def __init__(self, ledger: Ledger, study: StudyRecord) -> None:
        self.ledger, self.study_id, self.spec = ledger, study.id, study.spec
        self.samplers: dict[str, ArmPointSampler] = {}
        self.arm_by_key: dict[str, str] = {}
        self.point_keys_by_key: dict[str, tuple[str, ...]] = {}
        self.rejections: list[str] = []
        self.counts = {arm.label: 0 for arm in self.spec.arms}
        search, space = self.spec.search, self.spec.space
        if search is None or space is None or not self.spec.samples_points_during_run:
            return
        suffix = f"({self.spec.digest[:8]}, {study.created_at:%Y-%m-%d %H:%M:%S.%f})"
        try:
            self._open_samplers(search, space, suffix)
            self._restore_samplers_from_ledger()
        except BaseException:
            self.close()
            raise

    def _open_samplers(self, search: SearchSpec, space: Space, suffix: str) -> None:
        """Open the sampler of each arm; the names of their Optuna studies end with `suffix`."""
        if search.sampler is Sampler.BRENT:
            self.samplers = {arm.label: BrentSampler(search, space) for arm in self.spec.arms}
            return
        url, schema = self.ledger.prepare_optuna_url_and_schema()
        for arm in self.spec.arms:
            self.samplers[arm.label] = OptunaPointSampler(
                search,
                space,
                storage=url,
                schema=schema,
                name=f"{self.spec.name} {arm.label} {suffix}",
                epochs=search.epochs or self.spec.training.epochs,
            )

    def _restore_samplers_from_ledger(self) -> None:
        points = self.ledger.trials.list_sampled_trials_grouped_by_point(self.study_id)
        for label, sampler in self.samplers.items():
            arm_points = [trials for trials in points if self._is_search_trial_of_arm(trials[0].trial, label)]
            self.counts[label] = len(arm_points)
            for trials in arm_points:
                self._note_keys_of_point(label, [trial.key for trial in trials])
            sampler.restore_from_ledger(arm_points)

    def _is_search_trial_of_arm(self, trial: TrialRecord, label: str) -> bool:
        return trial.arm == label and trial.is_search_phase_trial == self.spec.trains_best_points_after_search

    def close(self) -> None:
        """Close the connections of the samplers."""
        for sampler in self.samplers.values():
            sampler.close()

    @property
    def is_exhausted(self) -> bool:
        """Whether no arm will have a further point in this run."""
        return all(
            self.has_all_points_of_arm(label) or sampler.is_blocked_by_failed_trial
            for label, sampler in self.samplers.items()
        )

    def has_all_points_of_arm(self, label: str) -> bool:
        """Whether an arm has all of its points; always for points that are created when the study is accepted."""
        return label not in self.samplers or self.counts[label] >= self._num_points_per_arm

    def _list_arms_ready_for_point(self) -> list[str]:
        return [
            label
            for label, sampler in self.samplers.items()
            if not self.has_all_points_of_arm(label) and not sampler.is_waiting_for_result
        ]

    def is_trial_prunable(self, key: str) -> bool:
        """Whether a pruner decides after each epoch of the trial of that key."""
        search = self.spec.search
        return key in self.arm_by_key and search is not None and search.pruner is not Pruner.NONE

    def informs_sampler(self, key: str) -> bool:
        """Whether the sampler learns from the result of the trial of that key."""
        search = self.spec.search
        return key in self.arm_by_key and search is not None and search.sampler is not Sampler.RANDOM

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Objectives that trials measure for the search."""
        is_needed = self.samplers or self.spec.trains_best_points_after_search
        return self.spec.search.objectives if is_needed and self.spec.search is not None else ()

    def add_next_point_trials(self) -> list[TrialRecord]:
        """The trials of one new point of the arm that has fewest points; empty where no arm has a new point now."""
        while ready_arms := self._list_arms_ready_for_point():
            label = min(ready_arms, key=lambda arm: self.counts[arm])
            self.rejections = []
            for point in self._iter_candidate_points(label):
                trials = self._add_point(label, point)
                if trials:
                    self.counts[label] += 1
                    return trials
            self._end_search_of_arm(label)
        return []

    def _iter_candidate_points(self, label: str) -> Iterator[Point | None]:
        """Points to try: first those of the sampler (None), which may repeat known or rejected points.

        Then every remaining point where the space can be enumerated, else random points.
        """
        yield from repeat(None, _MAX_REPEATS)
        if not self.samplers[label].accepts_points_from_elsewhere:
            return
        if self._is_space_enumerable():
            yield from self._iter_unknown_points(label)
        else:
            for _ in range(_MAX_REPEATS):
                yield self.samplers[label].draw_random_point()

    def _end_search_of_arm(self, label: str) -> None:
        """End the search of an arm that has no further point. Raises SpecError where every point was rejected."""
        if self.rejections and not self.counts[label]:
            raise SpecError(f"study {self.spec.name}", self.rejections[:1])
        reason = f"{self.counts[label]} of {self._num_points_per_arm} points: {self.samplers[label].end_reason}"
        if self.rejections:
            reason += f" ({self.rejections[0]})"
        self.ledger.studies.record_arm_search_with_too_few_points(self.study_id, label, reason)
        self.counts[label] = self._num_points_per_arm

    def _is_space_enumerable(self) -> bool:
        space = self.spec.space or {}
        finite = all(list_values_if_finite(dimension) is not None for dimension in space.values())
        return finite and num_grid_points(space) <= LARGEST_GRID

    def _iter_unknown_points(self, label: str) -> Iterator[Point]:
        arm = next(arm for arm in self.spec.arms if arm.label == label)
        for point in iter_grid_points(self.spec.space or {}):
            with suppress(SpecError):
                if (
                    make_search_or_full_trial_spec(self.spec, arm, point, self.spec.seeds_per_point[0]).key
                    not in self.arm_by_key
                ):
                    yield point

    def _add_point(self, label: str, point: Point | None) -> list[TrialRecord] | None:
        """Store `point`, or one that the sampler suggests, with its trials; None where it is known or rejected."""
        sampler = self.samplers[label]
        arm = next(arm for arm in self.spec.arms if arm.label == label)
        suggestion = sampler.ask(point)
        if suggestion is None:
            return None
        parameters = sampler.point_of_suggestion(suggestion)
        try:
            specs = [
                make_search_or_full_trial_spec(self.spec, arm, parameters, seed) for seed in self.spec.seeds_per_point
            ]
        except SpecError as error:
            sampler.reject_suggestion(suggestion, error.problems[0])
            self.rejections += error.problems
            return None
        trials = self.ledger.trials.add_trials_of_new_point(self.study_id, specs)
        if trials is None:
            sampler.reject_suggestion(suggestion, "a repeated point")
            return None
        sampler.accept_suggestion(suggestion, specs[0].key)
        self._note_keys_of_point(label, [spec.key for spec in specs])
        return trials

    def _note_keys_of_point(self, label: str, keys: Sequence[str]) -> None:
        """Note the arm of the trials of a point, and which trials belong together."""
        self.arm_by_key |= dict.fromkeys(keys, label)
        self.point_keys_by_key |= dict.fromkeys(keys, tuple(keys))

    def should_prune(self, key: str, record: EpochRecord) -> bool:
        """Whether the pruner stops the trial of that key after an epoch."""
        label = self.arm_by_key.get(key)
        return label is not None and self.samplers[label].report_loss_and_should_prune(
            key, record.epoch, record.validation_loss
        )

    def report_earlier_epochs(self, key: str, records: Sequence[EpochRecord]) -> None:
        """Report the epochs after which an earlier attempt at the trial went on: the pruner did not stop it there."""
        for record in records:
            self.should_prune(key, record)

    def report_trial_end(self, key: str) -> None:
        """Report to the sampler how the trial of that key ended, from its record in the ledger."""
        label = self.arm_by_key.get(key)
        if label is not None:
            keys = self.point_keys_by_key[key]
            for trials in self.ledger.trials.list_sampled_trials_grouped_by_point(self.study_id, keys):
                self.samplers[label].tell(trials)

    @property
    def _num_points_per_arm(self) -> int:
        assert self.spec.search is not None
        assert self.spec.space is not None
        return num_points_per_arm(self.spec.search, self.spec.space)
