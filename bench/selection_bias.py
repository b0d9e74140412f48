"""Reported selection bias against the true one, in simulated studies of eight rows and 120 examples.

Reported: the mean of `estimate_selection_bias` over the studies of a case. True: how far the lowest of the eight means
is below the expected loss of its row, on average over many more draws of the means. Effects of seeds are normal; those
of examples, and the rest, are exponential.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.support.reporting import finish, make_parser, spread
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.noise_draws import draw_noise, estimate_selection_bias

EXAMPLES = 120
SEEDS = (1, 2, 3, 5, 10)
EQUAL, AHEAD = "equal", "one 0.05 ahead"
LOSSES = {
    EQUAL: (0.0,) * 8,
    "in four groups": (0.0, 0.0, 0.0, 0.1, 0.1, 0.3, 0.3, 1.0),
    AHEAD: (0.0, *(0.05,) * 7),
    "one 0.5 ahead": (0.0, *(0.5,) * 7),
}
"""Expected losses of the rows."""


@dataclass(frozen=True)
class Effects:
    """Standard deviations of the interactions seed × row, example × row, and seed × example × row."""

    seed: float
    example: float
    rest: float


EFFECTS = (Effects(0.0, 0.3, 0.2), Effects(0.05, 0.3, 0.2), Effects(0.05, 0.0, 0.2), Effects(0.05, 0.3, 0.0))


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error."""

    mean: float
    error: float


def reported_bias(
    losses: tuple[float, ...], seeds: int, effects: Effects, *, studies: int, draws: int, random: int = 0
) -> Estimate:
    """Return the selection bias that a study reports. random: seed of studies and draws."""
    rng = np.random.default_rng([random, seeds])
    tables = (_simulate_study(rng, losses, seeds, effects) for _ in range(studies))
    return _estimate(np.array([bias_of_table(table, draws, index) for index, table in enumerate(tables)]))


def bias_of_table(table: OutcomeTable, draws: int, random: int = 0) -> float:
    """Return the selection bias that one study reports. random: seed of the draws."""
    means = table.losses.mean(axis=(0, 2), dtype=np.float64)
    return estimate_selection_bias(means, draw_noise(table, int(means.argmin()), draws=draws, random=random))


def true_bias(losses: tuple[float, ...], seeds: int, effects: Effects, *, studies: int, random: int = 1) -> Estimate:
    """Return the true selection bias: expected loss of the row with the lowest mean, minus that mean.

    Means are drawn from their own distribution: n exponential values have a gamma distributed sum. The mean error of
    all rows, whose expectation is 0, is subtracted to reduce the variance.
    """
    rng = np.random.default_rng([random, seeds])
    shape, cells = (studies, len(losses)), seeds * EXAMPLES
    errors = effects.seed * rng.normal(size=shape) / np.sqrt(seeds)
    errors += effects.example * (rng.gamma(EXAMPLES, size=shape) / EXAMPLES - 1)
    errors += effects.rest * (rng.gamma(cells, size=shape) / cells - 1)
    winners = (errors + np.array(losses)).argmin(axis=1)
    return _estimate(errors.mean(axis=1) - errors[np.arange(studies), winners])


def _simulate_study(rng: np.random.Generator, losses: tuple[float, ...], seeds: int, effects: Effects) -> OutcomeTable:
    rows = len(losses)
    losses_by_example = (
        rng.exponential(size=EXAMPLES)
        + effects.seed * rng.normal(size=(seeds, rows, 1))
        + effects.example * (rng.exponential(size=(rows, EXAMPLES)) - 1)
        + effects.rest * (rng.exponential(size=(seeds, rows, EXAMPLES)) - 1)
        + np.array(losses)[:, None]
    )
    return OutcomeTable(losses_by_example.astype(np.float32), losses_by_example < 1)


def _estimate(values: NDArray[np.float64]) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def measure_cases(*, studies: int, draws: int) -> list[dict[str, Any]]:
    """Return all cases with reported and true selection bias."""
    results = []
    for (name, losses), seeds, effects in itertools.product(LOSSES.items(), SEEDS, EFFECTS):
        if seeds == 1 and effects.seed > 0:
            continue  # one network contains no information about seeds
        reported = reported_bias(losses, seeds, effects, studies=studies, draws=draws)
        true = true_bias(losses, seeds, effects, studies=100 * studies)
        results.append(
            {"rows": name, "seeds": seeds, "effects": asdict(effects), "said": asdict(reported), "true": asdict(true)}
        )
        print(
            f"{name:15} {seeds:2} seeds, {effects}: reported {reported.mean:.4f} ± {reported.error:.4f}, "
            f"true {true.mean:.4f} ± {true.error:.4f}"
        )
    return results


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    studies, draws = (300, 400) if options.quick else (1_000, 2_000)
    results = measure_cases(studies=studies, draws=draws)
    equal = [case for case in results if case["rows"] == EQUAL]
    ahead = [case for case in results if case["rows"] == AHEAD]
    ratios = [case["said"]["mean"] / case["true"]["mean"] for case in equal]
    excess = [
        (case["said"]["mean"] - case["true"]["mean"]) / other["true"]["mean"]
        for case, other in zip(ahead, equal, strict=True)
    ]
    finish(
        "selection_bias",
        {
            "ratio_of_equal_rows": spread(ratios),
            "excess_of_one_ahead": spread(excess),
            "equal_cases": len(equal),
            "studies": studies,
            "draws": draws,
            "rows": len(LOSSES[EQUAL]),
            "examples": EXAMPLES,
            "cases": results,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
