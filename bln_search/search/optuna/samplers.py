"""Optuna's samplers and pruners by the names of a study file."""

from __future__ import annotations

from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler

from bln_search.specs.search import Pruner, Sampler, SearchSpec

_REDUCTION = 3
"""Of the trials that reach a rung of successive halving, one in so many goes on."""


def make_sampler(spec: SearchSpec, known: int) -> BaseSampler:
    """The sampler of a study that has `known` points already; it goes on differently from how it began."""
    seed = (spec.seed + known) % 2**31
    match spec.sampler:
        case Sampler.RANDOM:
            return RandomSampler(seed)
        case Sampler.TPE:
            return TPESampler(
                seed=seed,
                n_startup_trials=spec.startup,
                multivariate=True,
                constant_liar=True,
                warn_independent_sampling=False,
            )
        case Sampler.GP:
            return GPSampler(seed=seed, n_startup_trials=spec.startup)
        case Sampler.CMAES:
            return CmaEsSampler(seed=seed, n_startup_trials=spec.startup, warn_independent_sampling=False)
        case Sampler.NSGA2:
            return NSGAIISampler(seed=seed, population_size=max(2, spec.startup))
        case Sampler.GRID:
            raise ValueError("a grid is written out, it has no sampler")


def make_pruner(spec: SearchSpec, epochs: int) -> BasePruner:
    """The pruner; epochs: of a whole training."""
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
