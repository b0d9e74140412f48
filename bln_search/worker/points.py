"""The sampled points of a study: suggested by Optuna, written down in the ledger, told back when they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat

from bln_search.core.errors import SpecError
from bln_search.core.records import EpochRecord
from bln_search.search.optuna.sampler import Suggester
from bln_search.specs.search import Objective, Pruner, wanted_points
from bln_search.specs.space import Point, finite_values, grid, grid_size
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import LARGEST_GRID, resolve
from bln_search.storage.ledger import Ledger
from bln_search.storage.queries import OpenTrial, points
from bln_search.storage.sampler import sampler_url

_REPEATS = 20
"""Points in a row that are known already or refused, after which a sampler has nothing new to say."""


class Points:
    """Of every arm of a study as many points as its search asks for; of a study that samples nothing, none."""

    def __init__(self, ledger: Ledger, study_id: int, study: StudySpec) -> None:
        self.ledger, self.study_id, self.study = ledger, study_id, study
        self.suggesters: dict[str, Suggester] = {}
        self.arm_of: dict[str, str] = {}
        self.refused: list[str] = []
        self.counts = {arm.label: 0 for arm in study.arms}
        if study.search is None or study.space is None or not study.sampled:
            return
        url = sampler_url(ledger.engine)
        accepted = ledger.study(study_id).created_at
        for arm in study.arms:
            name = f"{study.name} {arm.label} ({study.digest[:8]}, {accepted:%Y-%m-%d %H:%M:%S.%f})"
            epochs = study.training.epochs
            self.suggesters[arm.label] = Suggester(study.search, study.space, storage=url, name=name, epochs=epochs)
        self._restore()

    def _restore(self) -> None:
        """Bring the samplers' records to where the ledger is."""
        known = points(self.ledger.engine, self.study_id)
        for label, suggester in self.suggesters.items():
            own = [trials for trials in known if trials[0].arm == label]
            self.counts[label] = len(own)
            self.arm_of |= {trial.key: label for trials in own for trial in trials}
            suggester.restore(own)

    def close(self) -> None:
        """Let go of the samplers' records."""
        for suggester in self.suggesters.values():
            suggester.close()

    @property
    def exhausted(self) -> bool:
        """Has every arm all the points it was to have?"""
        return all(self.counts[label] >= self._wanted for label in self.suggesters)

    @property
    def prunable(self) -> bool:
        """Do trials wait for a verdict after each epoch?"""
        return bool(self.suggesters) and self.study.search is not None and self.study.search.pruner is not Pruner.NONE

    @property
    def measured(self) -> tuple[Objective, ...]:
        """What trials measure for the sampler."""
        return self.study.search.objectives if self.suggesters and self.study.search is not None else ()

    def suggest(self) -> list[OpenTrial]:
        """The trials of one new point, of the arm that has fewest; none where there is nothing more to try."""
        while not self.exhausted:
            label = min(self.suggesters, key=lambda one: self.counts[one])
            self.refused = []
            for point in self._candidates(label):
                added = self._try_one(label, point)
                if added:
                    self.counts[label] += 1
                    return added
            self._give_up(label)
        return []

    def _candidates(self, label: str) -> Iterator[Point | None]:
        """What the sampler says (None), then what it never says: all that is left where that can be written out, else
        points drawn evenly. A sampler may come back to combinations that are refused, and to points that are known."""
        yield from repeat(None, _REPEATS)
        if self._can_be_written_out():
            yield from self._unknown_points(label)
        else:
            for _ in range(_REPEATS):
                yield self.suggesters[label].random_point()

    def _give_up(self, label: str) -> None:
        """No further point of the arm can be found. Raises SpecError where there is none at all: all were refused."""
        if self.refused and not self.counts[label]:
            raise SpecError(f"study {self.study.name}", self.refused[:1])
        reason = f"{self.counts[label]} of {self._wanted} points: every other one is known already or refused"
        if self.refused:
            reason += f" ({self.refused[0]})"
        self.ledger.record_search_end(self.study_id, label, reason)
        self.counts[label] = self._wanted

    def _can_be_written_out(self) -> bool:
        space = self.study.space or {}
        finite = all(finite_values(dimension) is not None for dimension in space.values())
        return finite and grid_size(space) <= LARGEST_GRID

    def _unknown_points(self, label: str) -> Iterator[Point]:
        """All that are left."""
        space = self.study.space or {}
        arm = next(arm for arm in self.study.arms if arm.label == label)
        for point in grid(space):
            with suppress(SpecError):
                if resolve(self.study, arm, point, self.study.seeds[0]).key not in self.arm_of:
                    yield point

    def _try_one(self, label: str, wanted: Point | None) -> list[OpenTrial] | None:
        """A point that the sampler suggests, or the `wanted` one, written down; None where it was there already."""
        suggester = self.suggesters[label]
        arm = next(arm for arm in self.study.arms if arm.label == label)
        asked = suggester.ask(wanted)
        point = suggester.point(asked)
        try:
            trials = [resolve(self.study, arm, point, seed) for seed in self.study.seeds]
        except SpecError as error:
            suggester.drop(asked, error.problems[0])
            self.refused += error.problems
            return None
        added = self.ledger.add_point(self.study_id, trials)
        if added is None:
            suggester.drop(asked, "the same point once more")
            return None
        suggester.bind(asked, trials[0].key)
        self.arm_of |= {trial.key: label for trial in trials}
        return added

    def should_stop(self, key: str, record: EpochRecord) -> bool:
        """After an epoch of the trial `key`: does the pruner stop it?"""
        label = self.arm_of.get(key)
        return label is not None and self.suggesters[label].should_stop(key, record.epoch, record.validation_loss)

    def ended(self, key: str) -> None:
        """The trial `key` has ended, in whatever way; the ledger knows how."""
        label = self.arm_of.get(key)
        if label is not None:
            for trials in points(self.ledger.engine, self.study_id, key):
                self.suggesters[label].settle(trials)

    @property
    def _wanted(self) -> int:
        assert self.study.search is not None
        assert self.study.space is not None
        return wanted_points(self.study.search, self.study.space)
