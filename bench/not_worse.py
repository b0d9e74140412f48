"""Size and power of the test behind `assert_not_worse`, by simulation, and its time on the digits.

Size: share of simulated comparisons that pass although the network is worse by exactly the margin, wanted at most 5 %,
beside that of Student's one-sided t test. Power: share that passes at the margin with which a t test of known variance
passes 80 %.
"""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.support.reporting import finish, make_parser, spread
from bln_search.api.not_worse.comparison import compare_with_baseline
from bln_search.data.digits import load_digits_data_set
from bln_search.ranking.paired.exponential_sum import probability_of_positive_sum
from bln_search.ranking.statistics.intervals import ALPHA

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

SIZES = (50, 200, 1_000, 5_000)
_MOST_DIFFERENCES = 10_000_000
"""Limit on the number of differences that are simulated for a share."""

_CHUNK = 2**20
"""Number of differences that are simulated together."""

_REFERENCE = 2_000_000
"""Number of draws from which the mean of differences is computed where it has no formula."""


def _classifier(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Cross-entropy of two classes for logits that differ by noise: heavy tails in both directions."""
    logit = rng.normal(4, 3, shape)
    return np.logaddexp(0, -logit - rng.normal(0, 1, shape)) - np.logaddexp(0, -logit)


def _errors(of_model: float, of_baseline: float) -> Draw:
    """Differences of 0/1 errors: the shares of examples in which only one of both is wrong."""
    shares = [of_model, of_baseline, 1 - of_model - of_baseline]
    return lambda rng, shape: rng.choice(np.array([1.0, -1.0, 0.0]), shape, p=shares)


def _rare_failures(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Small noise, and failures in one of fifty examples, from which most small samples have none."""
    return rng.normal(0, 0.05, shape) + (rng.random(shape) < 0.02) * rng.exponential(1, shape)


LIMITS = ("log-normal", "rare failures")
"""Distributions with values far above all that a small sample has: no test without further assumptions is valid."""

DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "exponential": lambda rng, shape: rng.exponential(1, shape),
    "mirrored exponential": lambda rng, shape: -rng.exponential(1, shape),
    "difference of exponentials": lambda rng, shape: rng.exponential(1, shape) - rng.exponential(1, shape),
    "cross-entropy": _classifier,
    "Student's t, 3 degrees of freedom": lambda rng, shape: rng.standard_t(3, shape),
    "errors, 7 % against 5 %": _errors(0.07, 0.05),
    "errors, 2 % against 0 %": _errors(0.02, 0.0),
    "errors, 1 % against 0 %": _errors(0.01, 0.0),
    "log-normal": lambda rng, shape: rng.lognormal(0, 1, shape),
    "rare failures": _rare_failures,
}
"""Differences of the losses of an example, which are shifted so that their mean is the margin, apart from errors."""


def passes_of_test(values: Floats) -> NDArray[np.bool_]:
    """Which lines of differences minus margin pass; `values` (B, n + 1) has the added unit last."""
    passes: NDArray[np.bool_] = probability_of_positive_sum(values) < ALPHA
    return passes


def passes_of_t_test(differences: Floats, margin: float) -> NDArray[np.bool_]:
    """Which lines of differences (B, n) pass Student's one-sided t test."""
    n = differences.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (differences.mean(axis=1) - margin) / (differences.std(axis=1, ddof=1) / math.sqrt(n))
    passes: NDArray[np.bool_] = special.stdtr(n - 1, t) < ALPHA
    return passes


def shares_of_passes(draw: Draw, margin: float, n: int, comparisons: int, *, random: int) -> dict[str, float]:
    """Share of comparisons of n examples that pass each test."""
    rng = np.random.default_rng([random, n])
    counts = np.zeros(2)
    step = max(1, _CHUNK // n)
    for start in range(0, comparisons, step):
        differences = draw(rng, (min(step, comparisons - start), n))
        largest = np.abs(differences).max(axis=1, keepdims=True)
        with_added = np.concatenate([differences, np.where(largest > 0, largest, 1.0)], axis=1)
        counts += passes_of_test(with_added - margin).sum(), passes_of_t_test(differences, margin).sum()
    return {"ours": float(counts[0] / comparisons), "t_test": float(counts[1] / comparisons)}


def measure_distribution(name: str, comparisons: int) -> list[dict[str, Any]]:
    """Size and power for each number of examples."""
    draw = DISTRIBUTIONS[name]
    sample = draw(np.random.default_rng(0), (1, _REFERENCE))
    mean, deviation = float(sample.mean()), float(sample.std())
    if name.startswith("errors"):
        mean = round(mean, 2)
    rows = []
    for n in SIZES:
        comparisons = min(comparisons, _MOST_DIFFERENCES // n)
        row: dict[str, Any] = {"distribution": name, "examples": n, "comparisons": comparisons}
        row["size"] = shares_of_passes(draw, mean, n, comparisons, random=1)
        if not name.startswith("errors"):
            margin = mean + (special.ndtri(1 - ALPHA) + special.ndtri(0.8)) * deviation / math.sqrt(n)
            row["power"] = shares_of_passes(draw, margin, n, comparisons, random=2)
        print(row, flush=True)
        rows.append(row)
    return rows


def make_loader(images: NDArray[np.uint8], labels: NDArray[np.int64], noise: float = 0.0) -> DataLoader[Any]:
    """Mini-batches of 50 digits, with noise on their pixels."""
    inputs = torch.from_numpy(images).float().flatten(1) / 16
    inputs += noise * torch.randn(inputs.shape, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(inputs, torch.from_numpy(labels)), batch_size=50)


def train_network(loader: DataLoader[Any], epochs: int = 10) -> nn.Module:
    """A network with a normalization layer."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs), targets).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return network.eval()


def round_weights(network: nn.Module, bits: int) -> nn.Module:
    """A copy with weights of so many bits."""
    rounded = copy.deepcopy(network)
    with torch.no_grad():
        for weights in rounded.parameters():
            step = weights.abs().max() / (2 ** (bits - 1) - 1)
            weights.copy_((weights / step).round() * step)
    return rounded


def measure_digits() -> dict[str, Any]:
    """Training, and comparisons of networks with rounded weights on clean and noisy digits: seconds and verdicts."""
    start = time.perf_counter()
    digits = load_digits_data_set()
    train, test = slice(0, 900), slice(900, None)
    images = np.concatenate([digits.train_inputs, digits.test_inputs])
    labels = np.concatenate([digits.train_labels, digits.test_labels])
    network = train_network(make_loader(images[train], labels[train]))
    loaders = {f"noise {noise}": make_loader(images[test], labels[test], noise) for noise in (0.1, 0.2, 0.3)}
    seconds, verdicts = [], {}
    for bits in (8, 6, 4, 2):
        begin = time.perf_counter()
        report = compare_with_baseline(
            round_weights(network, bits),
            network,
            make_loader(images[test], labels[test]),
            conditions=loaders,
            margin=0.02,
        )
        seconds.append(time.perf_counter() - begin)
        verdicts[f"{bits} bits"] = str(report.verdict)
        print(report, flush=True)
    return {
        "examples": report.conditions[0].examples,
        "conditions": len(report.conditions),
        "margin": 0.02,
        "comparison_seconds": spread(seconds),
        "all_seconds": time.perf_counter() - start,
        "verdicts": verdicts,
    }


def measure_plugin(runs: int) -> dict[str, Any]:
    """Seconds and modules that the plugin adds to pytest, in new processes."""
    code = (
        "import sys, time, pytest; before = len(sys.modules); start = time.perf_counter(); "
        "import bln_search.integrations.pytest_plugin; "
        "print(time.perf_counter() - start, len(sys.modules) - before, 'torch' in sys.modules)"
    )
    printed = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(runs)
    ]
    return {
        "seconds": spread([float(seconds) for seconds, _, _ in printed]),
        "modules": int(printed[0][1]),
        "loads_torch": printed[0][2] == "True",
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    comparisons = 500 if options.quick else 4_000
    digits, plugin = measure_digits(), measure_plugin(5)
    rows = [row for name in DISTRIBUTIONS for row in measure_distribution(name, comparisons)]
    usual = [row for row in rows if row["distribution"] not in LIMITS]
    finish(
        "not_worse",
        {
            "comparisons": comparisons,
            "distributions": len(DISTRIBUTIONS) - len(LIMITS),
            "sizes": list(SIZES),
            "largest_size": max(row["size"]["ours"] for row in usual),
            "largest_size_of_t_test": max(row["size"]["t_test"] for row in usual),
            "limits": {
                name: {str(row["examples"]): row["size"] for row in rows if row["distribution"] == name}
                for name in LIMITS
            },
            "power_by_examples": {
                str(n): spread([row["power"]["ours"] for row in usual if row["examples"] == n and "power" in row])
                for n in SIZES
            },
            "digits": digits,
            "plugin": plugin,
            "rows": rows,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
