"""Compare a network with its baseline on the loaders of all conditions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType

import torch

from bln_search.api.arguments import parse_flag
from bln_search.api.check.check import check_margin
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.api.inputs.score import UserScore, describe_score, last_score_had_correctness, parse_score
from bln_search.api.not_worse.compared_network import ComparedNetwork, Network
from bln_search.api.not_worse.condition_tests import ConditionData, judge_all
from bln_search.api.not_worse.paired_outcomes import PairedOutcomes, read_paired_outcomes
from bln_search.api.not_worse.report import NotWorseReport
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.errors import BatchDependenceWarning
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.isolated_passes import untouched_networks

_FIRST_CONDITION = "loader"
"""Name of the condition of the loader without a name."""

_METRICS = ("loss", "accuracy")


@torch.no_grad()
def compare_with_baseline(
    model: Network,
    baseline: Network,
    loader: Loader,
    *,
    conditions: Mapping[str, Loader] = MappingProxyType({}),
    margin: float | None = None,
    metric: str = "loss",
    score: UserScore = "cross_entropy",
    forward: Forward | None = None,
    target: Target | None = None,
    progress: bool = True,
) -> NotWorseReport:
    """What `assert_not_worse` finds, with its arguments and errors, without the assertion."""
    check_margin(margin)
    if metric not in _METRICS:
        raise ValueError(f"metric is loss or accuracy, not {metric!r}")
    loaders = _parse_conditions(loader, conditions)
    scoring, lines = parse_score(score), ProgressLines(enabled=parse_flag("progress", progress))
    networks = (
        ComparedNetwork(model, "model", forward, target),
        ComparedNetwork(baseline, "baseline", forward, target, lines),
    )
    outcomes: dict[str, PairedOutcomes] = {}
    dependent: dict[str, None] = {}
    with untouched_networks([each.module for each in networks]):
        for name, role in loaders.items():
            outcomes[name] = read_paired_outcomes(*networks, role, scoring)
            dependent |= {each.name: None for each in networks if each.depends_on_batch}
    has_correctness = last_score_had_correctness(scoring)
    if metric == "accuracy" and not has_correctness:
        raise ValueError('metric="accuracy" needs a score that returns correctness, as score="cross_entropy" does')
    if dependent:
        warnings.warn(
            f"the outputs of {' and '.join(dependent)} for an example depend on its mini-batch: mini-batches are "
            "compared instead of examples, and many are needed",
            BatchDependenceWarning,
            stacklevel=4,  # the caller of `assert_not_worse`
        )
    description = describe_score(scoring)
    return NotWorseReport(
        judge_all(
            [
                ConditionData.of_outcomes(
                    name,
                    each,
                    margin,
                    metric=metric,
                    has_correctness=has_correctness,
                    are_dependent=bool(dependent),
                )
                for name, each in outcomes.items()
            ]
        ),
        metric,
        "accuracy" if metric == "accuracy" else description.name,
        "points" if metric == "accuracy" else description.unit,
    )


def _parse_conditions(loader: Loader, conditions: Mapping[str, Loader]) -> dict[str, RoleLoader]:
    """The loaders of all conditions by name, that of the first one first."""
    if not isinstance(conditions, Mapping) or not all(isinstance(name, str) for name in conditions):
        raise TypeError('conditions has a loader for each name, as in {"night": loader}')
    if _FIRST_CONDITION in conditions:
        raise ValueError(f"{_FIRST_CONDITION!r} is the name of the first condition: choose another name")
    arguments = {_FIRST_CONDITION: "loader"} | {name: f"conditions[{name!r}]" for name in conditions}
    loaders = {_FIRST_CONDITION: loader, **conditions}
    check_iterators_read_once([(arguments[name], each) for name, each in loaders.items()])
    return {name: RoleLoader(each, arguments[name]) for name, each in loaders.items()}
