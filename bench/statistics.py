"""Sixteen rows compared with the best of them: ten seeds, 10,000 examples, on one core.

This measures all of `compare`: 120 pairs of the crossed analysis, verdicts, draws of the noise.
The losses are simulated: an effect of the example that all rows share, plus effects of rows and seeds, plus noise.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from bench.support.reporting import finish, make_parser, spread
from bln_search.core.configuration import all_configurations
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.method import Method
from bln_search.core.records import RowKey
from bln_search.ranking.paired import OutcomeTable, compare_rows

ROWS: list[RowKey] = [
    RowKey("bln", "", configuration, PopulationEstimate.FROZEN if configuration.uses_population else None, 25)
    for configuration in all_configurations(Method.BLN)
]


def simulate_losses(seeds: int, examples: int) -> OutcomeTable:
    """Return losses (S, 16, N) of a network with high accuracy; rows differ little compared with examples."""
    rng = np.random.default_rng(0)
    rows = len(ROWS)
    margin = (
        rng.normal(2.0, 1.5, examples)
        + rng.normal(0.0, 0.1, (seeds, rows, 1))
        + rng.normal(0.0, 0.3, (rows, examples))
        + rng.normal(0.0, 0.5, (seeds, rows, examples))
        - np.linspace(0.0, 0.3, rows)[:, None]
    )
    return OutcomeTable(np.log1p(np.exp(-margin)).astype(np.float32), margin > 0)


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    seeds, examples, runs = (3, 2_000, 3) if options.quick else (10, 10_000, 5)
    table = simulate_losses(seeds, examples)
    seconds, processor = [], []
    with threadpool_limits(1):
        comparison = compare_rows(ROWS, table, Split.VALIDATION)
        for _ in range(runs):
            start, processor_start = time.perf_counter(), time.process_time()
            comparison = compare_rows(ROWS, table, Split.VALIDATION)
            seconds.append(time.perf_counter() - start)
            processor.append(time.process_time() - processor_start)
    pairs, worse = math.comb(len(ROWS), 2), sum(row.is_worse for row in comparison.rows)
    print(f"{pairs} pairs, {seeds} seeds, {examples} examples, {worse} rows are worse than the best one")
    print(f"seconds {spread(seconds)}  processor seconds {spread(processor)}")
    finish(
        "statistics",
        {
            "seconds": spread(seconds)["median"],
            "pairs": pairs,
            "seeds": seeds,
            "examples": examples,
            "runs": runs,
            "spread": spread(seconds),
            "processor_seconds": spread(processor),
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
