"""A sampler that reads the newest trials of a study only: the time of others grows with their number."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState


class ShortHistorySampler(BaseSampler):
    """Passes the newest finished trials, and all running ones, to another sampler.

    Args:
        sampler: The other sampler.
        longest: The number of finished trials that it gets at most.
    """

    def __init__(self, sampler: BaseSampler, longest: int) -> None:
        self.sampler, self.longest = sampler, longest

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that the sampler samples together."""
        return self.sampler.infer_relative_search_space(self._shorten(study), trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values of the parameters that the sampler samples together."""
        return self.sampler.sample_relative(self._shorten(study), trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The value of a parameter that the sampler samples alone."""
        return self.sampler.sample_independent(self._shorten(study), trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Called before a trial is sampled."""
        self.sampler.before_trial(self._shorten(study), trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Called after a trial ended."""
        self.sampler.after_trial(self._shorten(study), trial, state, values)

    def reseed_rng(self) -> None:
        """Draw a new seed."""
        self.sampler.reseed_rng()

    def _shorten(self, study: Study) -> Study:
        shortened: Any = _ShortHistoryStudy(study, self.longest)
        return shortened  # type: ignore[no-any-return]


class _ShortHistoryStudy:
    """A study with its newest finished trials, and everything else of it."""

    def __init__(self, study: Study, longest: int) -> None:
        self._study, self._longest = study, longest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def get_trials(self, deepcopy: bool = True, states: Container[TrialState] | None = None) -> list[FrozenTrial]:  # noqa: FBT001, FBT002 - Optuna's interface
        """The trials that a sampler may read."""
        return self._get_trials(deepcopy, states)

    def _get_trials(
        self,
        deepcopy: bool = True,  # noqa: FBT001, FBT002 - Optuna's interface
        states: Container[TrialState] | None = None,
        use_cache: bool = False,  # noqa: FBT001, FBT002
    ) -> list[FrozenTrial]:
        trials = self._study._get_trials(deepcopy, states, use_cache)
        excess = sum(trial.state.is_finished() for trial in trials) - self._longest
        if excess <= 0:
            return trials
        finished = (trial.number for trial in trials if trial.state.is_finished())
        oldest = sorted(finished)[excess]
        return [trial for trial in trials if trial.number >= oldest or not trial.state.is_finished()]
