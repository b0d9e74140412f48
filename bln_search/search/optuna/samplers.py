"""Make the Optuna sampler and pruner that a study file names."""

from __future__ import annotations

from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler

from bln_search.search.optuna.short_history import ShortHistorySampler
from bln_search.specs.sections.search import Pruner, Sampler, SearchSpec

_LONGEST_HISTORY = 1_000
"""Finished points that TPE and GP read at most: their time grows with the number of points, or its third power."""

_REDUCTION = 3
"""Reduction factor of successive halving: one trial in three passes a rung."""


def make_optuna_sampler(spec: SearchSpec, trials: int) -> BaseSampler:
    """The sampler of a study with `trials` trials; the number changes the seed, so that no point is repeated."""
    seed = (spec.seed + trials) % 2**31
    match spec.sampler:
        case Sampler.RANDOM:
            return RandomSampler(seed)
        case Sampler.TPE:
            sampler = TPESampler(
                seed=seed,
                n_startup_trials=spec.startup,
                multivariate=True,
                constant_liar=True,
                warn_independent_sampling=False,
            )
            return ShortHistorySampler(sampler, max(_LONGEST_HISTORY, spec.startup))
        case Sampler.GP:
            return ShortHistorySampler(
                GPSampler(seed=seed, n_startup_trials=spec.startup), max(_LONGEST_HISTORY, spec.startup)
            )
        case Sampler.CMAES:
            return CmaEsSampler(seed=seed, n_startup_trials=spec.startup, warn_independent_sampling=False)
        case Sampler.NSGA2:
            return NSGAIISampler(seed=seed, population_size=max(2, spec.startup))
        case Sampler.BRENT:
            raise ValueError("Optuna has no sampler brent: bln_search.search.brent_sampler has it")
        case Sampler.GRID:
            raise ValueError("a grid has no sampler: its trials are created when the study is accepted")


def make_optuna_pruner(spec: SearchSpec, epochs: int) -> BasePruner:
    """The pruner. epochs: epochs of a complete training."""
    match spec.pruner:
        case Pruner.NONE:
            return NopPruner()
        case Pruner.MEDIAN:
            return MedianPruner(n_startup_trials=min(5, spec.startup), n_warmup_steps=spec.min_epochs - 1)
        case Pruner.ASHA:
            return SuccessiveHalvingPruner(min_resource=spec.min_epochs, reduction_factor=_REDUCTION)
        case Pruner.HYPERBAND:
            return HyperbandPruner(
                min_resource=spec.min_epochs, max_resource=max(epochs, spec.min_epochs), reduction_factor=_REDUCTION
            )
