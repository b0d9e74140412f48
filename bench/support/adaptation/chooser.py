"""The regret of an online chooser over streams of recurring shifts. Labels are used for measuring alone."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import bln_search
from bln_search import AdaptiveNetwork
from bln_search.adaptation.arms import StreamArm
from bln_search.adaptation.run_stream import run_stream
from bln_search.adaptation.stream_plan import StreamPlan, plan_stream
from bln_search.core.blend import blended_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.row_menu import DEFAULT_MENU, parse_menu
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    get_norms_by_name,
    moments_by_estimate_from_training_history,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.specs.sections.stream import StreamSpec

CLEAN = "clean"
CURVE_POINTS = 100

Wrong = NDArray[np.bool_]


def measure_regret(
    network: nn.Module,
    calibration: Tensor,
    data: Mapping[str, tuple[Tensor, Tensor]],
    orders: int,
    *,
    menu: Sequence[str] = DEFAULT_MENU,
    batch_size: int = 64,
    rounds: int = 3,
    order: str = "shuffled",
    seed: int = 0,
) -> dict[str, Any]:
    """Compare the chooser with every fixed row of its menu on random orders of a stream of recurring conditions.

    Args:
        network: With batch normalization and running statistics.
        calibration: Inputs without shift, from which the limits of the chooser are measured (n, ...).
        data: Inputs (n, ...) and classes (n,) of each condition, `clean` among them.
        orders: Number of random orders.
        menu: The rows, T first.
        batch_size: Of the stream.
        rounds: Turns of each condition.
        order: Of the examples of a condition: `shuffled`, `by_label`, `blocks` or `dirichlet`.
        seed: Of the orders.

    Returns:
        Errors in percent and differences in points, over orders: `errors` of the chooser and the rows by condition,
        `clean_excess_max` and `clean_excess_mean` over T on clean data of an order, `clean_segment_excess_max` in one
        turn, `regret_mean` and `regret_max` against the best fixed row of each stream, `regret_curve` (the mean
        cumulative regret in examples, with the place in the stream), `choices` (share of layers by row and condition)
        and `passes` (mean forward passes of a mini-batch by condition).
    """
    converted = bln_search.convert(copy_network(network).eval(), method="same").eval()
    chooser = bln_search.adaptive(converted, list(torch.split(calibration, batch_size)), menu, progress=False)
    populations = _find_populations(converted)
    arms = [StreamArm(row.label, _make_row(row.label)) for row in parse_menu(menu)]
    spec = StreamSpec(mixture="recurring", batch_size=batch_size, rounds=rounds, order=order, orders=orders, seed=seed)
    labels = {name: targets.numpy() for name, (_, targets) in data.items()}
    counts = {name: Counter[str]() for name in data}
    passes: dict[str, list[int]] = {name: [] for name in data}
    plans: list[StreamPlan] = []
    wrong: list[dict[str, Wrong]] = []
    for number in range(orders):
        plan = plan_stream(labels, spec, order=number)
        outcomes = run_stream(converted, arms, populations, data, plan)
        of_rows = {arm.label: ~outcome.correct for arm, outcome in zip(arms, outcomes, strict=True)}
        of_rows["chooser"] = _run_chooser(chooser, data, plan, counts, passes)
        plans.append(plan)
        wrong.append(of_rows)
    return {
        "errors": _average_errors(plans, wrong),
        **_compare_on_clean_data(plans, wrong),
        **_compute_regret(wrong, tuple(menu)),
        "choices": {name: _as_shares(each) for name, each in counts.items()},
        "passes": {name: float(np.mean(each)) for name, each in passes.items()},
    }


def _find_populations(network: nn.Module) -> Populations:
    layers = get_norms_by_name(network)
    moments = moments_by_estimate_from_training_history(layers)
    return compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)


def _make_row(label: str) -> InferenceRow:
    row = parse_menu(("T", label))[1] if label != "T" else parse_menu(("T", "F"))[0]
    configuration = InferenceConfiguration(row.source * 2 + "--")
    if not configuration.uses_population:
        return InferenceRow(configuration, None)
    population = str(PopulationEstimate.MOVING)
    return InferenceRow(
        configuration, population if row.weight is None else blended_estimate_label(population, row.weight)
    )


def _run_chooser(
    chooser: AdaptiveNetwork,
    data: Mapping[str, tuple[Tensor, Tensor]],
    plan: StreamPlan,
    counts: Mapping[str, Counter[str]],
    passes: Mapping[str, list[int]],
) -> Wrong:
    """Return which examples of a stream are wrong, and add the choices of each condition to the counts."""
    chooser.reset()
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bln_search.ShiftWarning)
        for conditions, examples in plan.iter_mini_batches():
            name = plan.conditions[int(conditions[0])]
            inputs, targets = (values[torch.from_numpy(examples)] for values in data[name])
            wrong.append((chooser(inputs).argmax(1) != targets).numpy())
            choice = chooser.choices[-1]
            counts[name].update(choice.rows)
            passes[name].append(choice.passes)
    return np.concatenate(wrong)


def _average_errors(plans: Sequence[StreamPlan], wrong: Sequence[Mapping[str, Wrong]]) -> dict[str, dict[str, float]]:
    names = plans[0].conditions
    return {
        arm: {
            name: float(
                np.mean(
                    [100 * each[arm][plan.condition_of == i].mean() for plan, each in zip(plans, wrong, strict=True)]
                )
            )
            for i, name in enumerate(names)
        }
        for arm in wrong[0]
    }


def _compare_on_clean_data(plans: Sequence[StreamPlan], wrong: Sequence[Mapping[str, Wrong]]) -> dict[str, float]:
    """The excess of the chooser over T on clean data, in points."""
    of_orders, of_segments = [], []
    for plan, each in zip(plans, wrong, strict=True):
        is_clean = plan.condition_of == plan.conditions.index(CLEAN)
        excess = 100 * (each["chooser"].astype(float) - each["T"])
        places = np.flatnonzero(is_clean)
        of_orders.append(excess[places].mean())
        of_segments += [excess[part].mean() for part in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)]
    return {
        "clean_excess_max": float(max(of_orders)),
        "clean_excess_mean": float(np.mean(of_orders)),
        "clean_segment_excess_max": float(max(of_segments)),
    }


def _compute_regret(wrong: Sequence[Mapping[str, Wrong]], rows: Sequence[str]) -> dict[str, Any]:
    """The regret against the fixed row that errs least on the whole stream of an order."""
    curves = []
    for each in wrong:
        best = min(rows, key=lambda row: each[row].sum())
        curves.append(np.cumsum(each["chooser"].astype(float) - each[best]))
    final = [100 * curve[-1] / len(curve) for curve in curves]
    places = np.unique(np.linspace(0, len(curves[0]) - 1, CURVE_POINTS).round().astype(int))
    mean = np.mean(curves, axis=0)
    return {
        "regret_mean": float(np.mean(final)),
        "regret_max": float(max(final)),
        "regret_curve": [[int(place) + 1, float(mean[place])] for place in places],
    }


def _as_shares(counts: Counter[str]) -> dict[str, float]:
    return {label: number / counts.total() for label, number in sorted(counts.items())}
