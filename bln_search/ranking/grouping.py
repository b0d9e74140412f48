"""Evaluations gathered by what they were made under, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.ranking.leaderboard import Candidate, Scored

Losses = dict[int, float]
"""Mean loss (nats) by seed."""


@dataclass(frozen=True, order=True)
class Condition:
    """What all configurations of a network share; estimate: of those that read a population value."""

    arm: str
    point: str
    estimate: PopulationEstimate | None
    batch_size: int


def losses_by_candidate(scored: Iterable[Scored], split: Split) -> dict[Candidate, Losses]:
    """Losses of every row of the table; those without a value are left out."""
    found: dict[Candidate, Losses] = {}
    for one in scored:
        evaluation = one.evaluation
        key = evaluation.key
        if key.split is split and evaluation.loss is not None:
            candidate = (one.arm, one.point, key.configuration, key.estimate, key.batch_size)
            found.setdefault(candidate, {})[one.seed] = evaluation.loss
    return found


def losses_by_condition(
    losses: dict[Candidate, Losses],
) -> dict[Condition, dict[InferenceConfiguration, Losses]]:
    """Losses of every configuration under each condition.

    A configuration that reads no population value was evaluated once and stands under every estimate. One that lacks
    seeds which others under the condition have is left out: its mean would be of other networks.
    """
    conditions: dict[Condition, dict[InferenceConfiguration, Losses]] = {}
    without: dict[tuple[str, str, int], dict[InferenceConfiguration, Losses]] = {}
    for (arm, point, configuration, estimate, batch_size), values in losses.items():
        if estimate is None:
            without.setdefault((arm, point, batch_size), {})[configuration] = values
        else:
            condition = Condition(arm, point, estimate, batch_size)
            conditions.setdefault(condition, {})[configuration] = values
    for condition, under in conditions.items():
        under.update(without.get((condition.arm, condition.point, condition.batch_size), {}))
    known = {(one.arm, one.point, one.batch_size) for one in conditions}
    for (arm, point, batch_size), alone in without.items():
        if (arm, point, batch_size) not in known:
            conditions[Condition(arm, point, None, batch_size)] = alone
    return {one: _with_every_seed(conditions[one]) for one in sorted(conditions, key=_order)}


def _with_every_seed(losses: dict[InferenceConfiguration, Losses]) -> dict[InferenceConfiguration, Losses]:
    every = set().union(*losses.values())
    return {one: values for one, values in losses.items() if values.keys() == every}


def _order(condition: Condition) -> tuple[str, str, str, int]:
    return condition.arm, condition.point, condition.estimate or "", condition.batch_size
