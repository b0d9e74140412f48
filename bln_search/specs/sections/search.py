"""The search of a space: sampler, pruner, objectives and budget."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from bln_search.specs.sections.space import (
    ChoiceDimension,
    FloatDimension,
    ScheduleDimension,
    Space,
    list_values_if_finite,
    num_grid_points,
)
from bln_search.specs.spec_section import SpecSection, Unique


class Sampler(StrEnum):
    """The sampler of points. GRID: every point; its trials are created when the study is accepted."""

    GRID = "grid"
    RANDOM = "random"
    TPE = "tpe"
    GP = "gp"
    CMAES = "cmaes"
    NSGA2 = "nsga2"
    BRENT = "brent"


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
        RUNNING_TRAINING_LOSS: Mean loss of the mini-batches up to the last step of training, with weights that fall by
            a factor of ten in each epoch.
    """

    LOSS = "loss"
    BEST_LOSS = "best_loss"
    INFERENCE_SECONDS = "inference_seconds"
    PARAMETERS = "parameters"
    RUNNING_TRAINING_LOSS = "running_training_loss"


_SHORTEST_BRENT_INTERVAL = 0.001
"""Distance of the bounds, a hundred times the tolerance of Brent's method."""


class SearchSpec(SpecSection):
    """Sampler, pruner, objectives and budget.

    Attributes:
        sampler: `grid`: all points become trials. These suggest points while the study runs: `random`, `tpe`, `gp`
            (Gaussian process), `cmaes` (numbers only, at least two, one objective), `nsga2`, and `brent` (Brent's
            method for one number of the kind `float`, one objective; one point of an arm at a time).
        pruner: Stops a trial early; needs one seed and the objective `loss`.
        trials: Number of points for each arm.
        objectives: `loss` of the checkpoint's epoch, `best_loss` of all its configurations, `inference_seconds` for a
            thousand examples (on CPU with one thread: CPU time, independent of other load), `parameters`,
            `running_training_loss` of the mini-batches at the end of training (weights fall by a factor of ten in each
            epoch). Several give a Pareto front.
        seed: Seed of the sampler.
        startup: Number of random start-up trials before a model-based sampler starts.
        min_epochs: Epochs before a pruner may stop a trial.
        then_train: Train the best point of each arm in full with all seeds after its search; only these networks are
            evaluated and ranked. Needs one objective.
        epochs: Epochs of each trial of the search, the first ones of the full training; all by default. Needs
            `then_train`.
        trial_seeds: Seeds of the trials of the search; by default the first of the study. Needs `then_train`.
    """

    added_later = frozenset({"then_train", "epochs", "trial_seeds"})

    sampler: Sampler = Sampler.TPE
    pruner: Pruner = Pruner.NONE
    trials: Annotated[int, Field(ge=1, le=100_000)] = 50
    objectives: Annotated[tuple[Objective, ...], Unique] = Field(default=(Objective.LOSS,), min_length=1, max_length=4)
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    startup: Annotated[int, Field(ge=1, le=10_000)] = 10
    min_epochs: Annotated[int, Field(ge=1, le=100_000)] = 1
    then_train: bool = False
    epochs: Annotated[int, Field(ge=1, le=100_000)] | None = None
    trial_seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] | None, Unique] = Field(
        default=None, min_length=1, max_length=1000
    )

    @model_validator(mode="after")
    def _check_option_combinations(self) -> SearchSpec:
        has_several_objectives = len(self.objectives) > 1
        if has_several_objectives and self.sampler is Sampler.CMAES:
            raise ValueError("the sampler cmaes takes one objective; choose nsga2, tpe, gp or random for several")
        if has_several_objectives and self.sampler is Sampler.BRENT:
            raise ValueError("the sampler brent minimizes one objective; choose nsga2, tpe, gp or random for several")
        if self.pruner is not Pruner.NONE and self.sampler is Sampler.BRENT:
            raise ValueError("the sampler brent needs the result of every trial: set pruner to none")
        if self.pruner is not Pruner.NONE and (has_several_objectives or self.objectives[0] is not Objective.LOSS):
            raise ValueError("a pruner compares losses after each epoch: it needs objectives [loss], or pruner none")
        if self.pruner is not Pruner.NONE and self.sampler is Sampler.GRID:
            raise ValueError("the sampler grid trains every point to its end: set pruner to none")
        return self

    @model_validator(mode="after")
    def _check_then_train(self) -> SearchSpec:
        for name in ("epochs", "trial_seeds"):
            if getattr(self, name) is not None and not self.then_train:
                raise ValueError(f"{name} is for a search whose best point is trained afterwards: set then_train")
        if self.then_train and len(self.objectives) > 1:
            raise ValueError(
                "then_train trains the best point of each arm; several objectives have no best point: give one"
            )
        return self

    def find_space_problem(self, space: Space, seeds: int) -> str | None:
        """Why the search cannot take the space; None if it can."""
        infinite = [key for key, dimension in space.items() if list_values_if_finite(dimension) is None]
        if self.sampler is Sampler.GRID and infinite:
            return (
                f"the sampler grid needs finitely many points, {infinite[0]} has infinitely many values: give "
                "choices, or another sampler"
            )
        if self.sampler is Sampler.BRENT:
            return _find_brent_problem(space)
        if self.sampler is Sampler.CMAES:
            categorical = [key for key, dimension in space.items() if _is_categorical_dimension(dimension)]
            if categorical:
                return (
                    f"the sampler cmaes takes numbers only, {categorical[0]} is a choice: use tpe, gp, nsga2 or random"
                )
            if _count_varying_numbers(space) < 2:
                return "the sampler cmaes needs at least two numbers to vary: use tpe, gp or random"
        if self.pruner is not Pruner.NONE and seeds > 1:
            return f"a pruner compares single trials, the study has {seeds} seeds: give one seed, or pruner none"
        return None


def num_points_per_arm(search: SearchSpec, space: Space) -> int:
    """The number of points of each arm: that of the search, at most that of the space."""
    if all(list_values_if_finite(dimension) is not None for dimension in space.values()):
        return min(search.trials, num_grid_points(space))
    return search.trials


def _find_brent_problem(space: Space) -> str | None:
    """Why Brent's method cannot search the space; None if it can."""
    if len(space) > 1:
        return f"the sampler brent searches one number, the space has {len(space)} keys: use tpe, gp, cmaes or random"
    ((key, dimension),) = space.items()
    if not isinstance(dimension, FloatDimension):
        return (
            f"the sampler brent searches a number of the kind float, {key} is of the kind {dimension.kind}: use tpe, "
            "gp or random"
        )
    low, high = dimension.bounds_on_scale
    if high - low < _SHORTEST_BRENT_INTERVAL:
        scale = "log₁₀ of its bounds are" if dimension.log else "its bounds are"
        return (
            f"the sampler brent stops 1e-5 from the minimum; for {key} {scale} less than {_SHORTEST_BRENT_INTERVAL} "
            f"apart: {'widen them' if dimension.log else 'widen them, or set log to true'}"
        )
    return None


def _is_categorical_dimension(dimension: object) -> bool:
    return isinstance(dimension, ChoiceDimension) or (
        isinstance(dimension, ScheduleDimension) and dimension.values is not None
    )


def _count_varying_numbers(space: Space) -> int:
    return sum(
        len(dimension.varying_number_names) if isinstance(dimension, ScheduleDimension) else 1
        for dimension in space.values()
    )
