"""The sampled points of a study: suggested by Optuna, stored in the ledger, reported back to Optuna when they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat

from bln_search.core.errors import SpecError
from bln_search.core.records import EpochRecord
from bln_search.search.optuna.sampler import OptunaSampler
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.sections.search import Objective, Pruner, SearchSpec, points_per_arm
from bln_search.specs.sections.space import Point, Space, finite_values, grid_size, iterate_grid_points
from bln_search.specs.trial import LARGEST_GRID, make_trial_spec
from bln_search.storage.ledger import Ledger

_MAX_REPEATS = 20
"""Number of known or rejected points in a row after which a sampler counts as having no new point."""


class PointSampler:
    """Samples the points of every arm, as many as the study specifies; none for a study without a sampler."""

    def __init__(self, ledger: Ledger, study: StudyRecord) -> None:
        self.ledger, self.study_id, self.spec = ledger, study.id, study.spec
        self.samplers: dict[str, OptunaSampler] = {}
        self.arm_by_key: dict[str, str] = {}
        self.rejections: list[str] = []
        self.counts = {arm.label: 0 for arm in self.spec.arms}
        search, space = self.spec.search, self.spec.space
        if search is None or space is None or not self.spec.has_sampled_points:
            return
        suffix = f"({self.spec.digest[:8]}, {study.created_at:%Y-%m-%d %H:%M:%S.%f})"
        try:
            self._open_samplers(search, space, suffix)
            self._restore()
        except BaseException:
            self.close()
            raise

    def _open_samplers(self, search: SearchSpec, space: Space, suffix: str) -> None:
        """Open the sampler of each arm; the names of their Optuna studies end with `suffix`."""
        url = self.ledger.make_optuna_url()
        for arm in self.spec.arms:
            self.samplers[arm.label] = OptunaSampler(
                search,
                space,
                storage=url,
                name=f"{self.spec.name} {arm.label} {suffix}",
                epochs=self.spec.training.epochs,
            )

    def _restore(self) -> None:
        """Synchronize the records of the samplers with the ledger."""
        points = self.ledger.trials.list_trials_by_point(self.study_id)
        for label, sampler in self.samplers.items():
            arm_points = [trials for trials in points if trials[0].trial.arm == label]
            self.counts[label] = len(arm_points)
            self.arm_by_key |= {trial.key: label for trials in arm_points for trial in trials}
            sampler.synchronize(arm_points)

    def close(self) -> None:
        """Close the connections of the samplers."""
        for sampler in self.samplers.values():
            sampler.close()

    @property
    def is_exhausted(self) -> bool:
        """Whether every arm has all of its points."""
        return all(self.counts[label] >= self._points_per_arm for label in self.samplers)

    @property
    def has_pruner(self) -> bool:
        """Whether a pruner decides after each epoch."""
        search = self.spec.search
        return bool(self.samplers) and search is not None and search.pruner is not Pruner.NONE

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Objectives that trials measure for the sampler."""
        return self.spec.search.objectives if self.samplers and self.spec.search is not None else ()

    def suggest(self) -> list[TrialRecord]:
        """The trials of one new point of the arm that has fewest points; empty where no arm has a new point."""
        while not self.is_exhausted:
            label = min(self.samplers, key=lambda arm: self.counts[arm])
            self.rejections = []
            for point in self._candidate_points(label):
                trials = self._add_point(label, point)
                if trials:
                    self.counts[label] += 1
                    return trials
            self._end_search(label)
        return []

    def _candidate_points(self, label: str) -> Iterator[Point | None]:
        """Points to try: first those of the sampler (None), which may repeat known or rejected points.

        Then every remaining point where the space can be enumerated, else random points.
        """
        yield from repeat(None, _MAX_REPEATS)
        if self._is_enumerable():
            yield from self._unknown_points(label)
        else:
            for _ in range(_MAX_REPEATS):
                yield self.samplers[label].random_point()

    def _end_search(self, label: str) -> None:
        """End the search of an arm that has no further point. Raises SpecError where every point was rejected."""
        if self.rejections and not self.counts[label]:
            raise SpecError(f"study {self.spec.name}", self.rejections[:1])
        reason = f"{self.counts[label]} of {self._points_per_arm} points: every other point is known or was rejected"
        if self.rejections:
            reason += f" ({self.rejections[0]})"
        self.ledger.studies.record_search_end(self.study_id, label, reason)
        self.counts[label] = self._points_per_arm

    def _is_enumerable(self) -> bool:
        space = self.spec.space or {}
        finite = all(finite_values(dimension) is not None for dimension in space.values())
        return finite and grid_size(space) <= LARGEST_GRID

    def _unknown_points(self, label: str) -> Iterator[Point]:
        """Every valid point of the space that is not in the ledger."""
        arm = next(arm for arm in self.spec.arms if arm.label == label)
        for point in iterate_grid_points(self.spec.space or {}):
            with suppress(SpecError):
                if make_trial_spec(self.spec, arm, point, self.spec.seeds[0]).key not in self.arm_by_key:
                    yield point

    def _add_point(self, label: str, point: Point | None) -> list[TrialRecord] | None:
        """Store `point`, or one that the sampler suggests, with its trials; None where it is known or rejected."""
        sampler = self.samplers[label]
        arm = next(arm for arm in self.spec.arms if arm.label == label)
        optuna_trial = sampler.ask(point)
        parameters = sampler.point(optuna_trial)
        try:
            specs = [make_trial_spec(self.spec, arm, parameters, seed) for seed in self.spec.seeds]
        except SpecError as error:
            sampler.reject(optuna_trial, error.problems[0])
            self.rejections += error.problems
            return None
        trials = self.ledger.trials.add_point(self.study_id, specs)
        if trials is None:
            sampler.reject(optuna_trial, "a repeated point")
            return None
        sampler.register(optuna_trial, specs[0].key)
        self.arm_by_key |= {spec.key: label for spec in specs}
        return trials

    def should_prune(self, key: str, record: EpochRecord) -> bool:
        """Whether the pruner stops the trial of that key after an epoch."""
        label = self.arm_by_key.get(key)
        return label is not None and self.samplers[label].should_stop(key, record.epoch, record.validation_loss)

    def report_end(self, key: str) -> None:
        """Report to the sampler how the trial of that key ended, from its record in the ledger."""
        label = self.arm_by_key.get(key)
        if label is not None:
            for trials in self.ledger.trials.list_trials_by_point(self.study_id, key):
                self.samplers[label].tell(trials)

    @property
    def _points_per_arm(self) -> int:
        """Points of each arm."""
        assert self.spec.search is not None
        assert self.spec.space is not None
        return points_per_arm(self.spec.search, self.spec.space)
