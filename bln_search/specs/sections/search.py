"""The search of a space: sampler, pruner, objectives and budget."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from bln_search.specs.base import Spec, require_unique
from bln_search.specs.sections.space import ChoiceDimension, ScheduleDimension, Space, finite_values, grid_size


class Sampler(StrEnum):
    """The sampler of points. GRID: every point; its trials are created when the study is accepted."""

    GRID = "grid"
    RANDOM = "random"
    TPE = "tpe"
    GP = "gp"
    CMAES = "cmaes"
    NSGA2 = "nsga2"


class Pruner(StrEnum):
    """The pruner, which stops a trial early by its validation loss. ASHA: asynchronous successive halving."""

    NONE = "none"
    MEDIAN = "median"
    ASHA = "asha"
    HYPERBAND = "hyperband"


class Objective(StrEnum):
    """An objective of a search; all are minimized.

    Members:
        LOSS: Validation loss of the checkpoint's epoch under the configuration that selects the epoch.
        BEST_LOSS: Lowest validation loss of all inference configurations.
        INFERENCE_SECONDS: Time for a thousand examples in mini-batches of the training size; CPU time of the thread on
            CPU with one thread.
        PARAMETERS: Number of trained weights.
    """

    LOSS = "loss"
    BEST_LOSS = "best_loss"
    INFERENCE_SECONDS = "inference_seconds"
    PARAMETERS = "parameters"


class SearchSpec(Spec):
    """Sampler, pruner, objectives and budget.

    Attributes:
        sampler: `grid`: all points become trials. These suggest points while the study runs: `random`, `tpe`, `gp`
            (Gaussian process), `cmaes` (numbers only, at least two, one objective) and `nsga2`.
        pruner: Stops a trial early; needs one seed and the objective `loss`.
        trials: Number of points for each arm.
        objectives: `loss` of the checkpoint's epoch, `best_loss` of all its configurations, `inference_seconds` for a
            thousand examples (on CPU with one thread: CPU time, independent of other load), `parameters`. Several give
            a Pareto front.
        seed: Seed of the sampler.
        startup: Number of random start-up trials before a model-based sampler starts.
        min_epochs: Epochs before a pruner may stop a trial.
    """

    sampler: Sampler = Sampler.TPE
    pruner: Pruner = Pruner.NONE
    trials: Annotated[int, Field(ge=1, le=100_000)] = 50
    objectives: tuple[Objective, ...] = Field(default=(Objective.LOSS,), min_length=1, max_length=4)
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    startup: Annotated[int, Field(ge=1, le=10_000)] = 10
    min_epochs: Annotated[int, Field(ge=1, le=100_000)] = 1

    @model_validator(mode="after")
    def _check_consistency(self) -> SearchSpec:
        require_unique(self.objectives, "objectives")
        has_several_objectives = len(self.objectives) > 1
        if has_several_objectives and self.sampler is Sampler.CMAES:
            raise ValueError("the sampler cmaes takes one objective; choose nsga2, tpe, gp or random for several")
        if self.pruner is not Pruner.NONE and (has_several_objectives or self.objectives[0] is not Objective.LOSS):
            raise ValueError("a pruner compares losses after each epoch: it needs objectives [loss], or pruner none")
        if self.pruner is not Pruner.NONE and self.sampler is Sampler.GRID:
            raise ValueError("the sampler grid trains every point to its end: set pruner to none")
        return self

    def find_space_problem(self, space: Space, seeds: int) -> str | None:
        """Why the search cannot take the space; None if it can."""
        infinite = [key for key, dimension in space.items() if finite_values(dimension) is None]
        if self.sampler is Sampler.GRID and infinite:
            return (
                f"the sampler grid needs finitely many points, {infinite[0]} has infinitely many values: give "
                "choices, or another sampler"
            )
        if self.sampler is Sampler.CMAES:
            categorical = [key for key, dimension in space.items() if _is_categorical(dimension)]
            if categorical:
                return (
                    f"the sampler cmaes takes numbers only, {categorical[0]} is a choice: use tpe, gp, nsga2 or random"
                )
            if _count_coordinates(space) < 2:
                return "the sampler cmaes needs at least two numbers to vary: use tpe, gp or random"
        if self.pruner is not Pruner.NONE and seeds > 1:
            return f"a pruner compares single trials, the study has {seeds} seeds: give one seed, or pruner none"
        return None


def points_per_arm(search: SearchSpec, space: Space) -> int:
    """The number of points of each arm: that of the search, at most that of the space."""
    if all(finite_values(dimension) is not None for dimension in space.values()):
        return min(search.trials, grid_size(space))
    return search.trials


def _is_categorical(dimension: object) -> bool:
    return isinstance(dimension, ChoiceDimension) or (
        isinstance(dimension, ScheduleDimension) and dimension.values is not None
    )


def _count_coordinates(space: Space) -> int:
    return sum(
        len(dimension.coordinate_names) if isinstance(dimension, ScheduleDimension) else 1
        for dimension in space.values()
    )
