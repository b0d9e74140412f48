"""Verdicts and recommendations in simulated tables and in the project's own studies: error, power, looks, regret.

- *Error*: the share of tables of equal rows in which one is called worse than the best one, and of tables at the margin
  with a false `practically equal`. With `looks`, the share with any such row at 3, 5, 10 or 20 seeds.
- *Power*: the share of tables in which a row that is worse by five standard deviations, of the difference of the two
  under one seed, is called worse. `before`: Student's t test with Holm's correction. `known`: a test that knows the
  distribution of the variances of all pairs, which a study does not know.
- *Regret*: what the recommended row costs, by several rules (`bench.support.answers.regret`).
- *Own studies*: verdicts of the studies in bench/results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

from bench.support.answers.errors import (
    EFFECT,
    measure_error,
    measure_error_at_margin,
    measure_error_over_examples,
    measure_error_over_looks,
    measure_power,
)
from bench.support.answers.own_studies import measure_own_studies, measure_subsets
from bench.support.answers.regret import list_cells, measure_regret
from bench.support.answers.tables import KINDS, KINDS_OF_POWER
from bench.support.reporting import finish, make_parser

SEEDS = (3, 5, 10)
ROWS = (2, 4, 8, 16, 48)
EXAMPLES = (50, 500, 5_000)
ERRORS_IN_MARGINS = (0.15, 0.3, 0.5)


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    tables, example_tables, cases = (60, 20, 100) if options.quick else (400, 100, 2_000)
    rows = ROWS[:4] if options.quick else ROWS
    cells = list_cells()
    with ProcessPoolExecutor() as pool:

        def measure(
            measure_case: Callable[..., dict[str, Any]], cases: Iterable[tuple[Any, ...]]
        ) -> list[dict[str, Any]]:
            results = [future.result() for future in [pool.submit(measure_case, *case) for case in cases]]
            for result in results:
                print(measure_case.__name__, result, flush=True)
            return results

        errors = measure(
            measure_error,
            ((*case, tables if case[1] < max(ROWS) else tables // 8) for case in product(KINDS, rows, SEEDS)),
        )
        over_examples = measure(
            measure_error_over_examples,
            ((8, *case, 2 * example_tables) for case in product((1, *SEEDS), EXAMPLES)),
        )
        at_margin = measure(
            measure_error_at_margin,
            ((*case, example_tables) for case in product(KINDS[:4], (2, 16), SEEDS, ERRORS_IN_MARGINS)),
        )
        looks = measure(measure_error_over_looks, ((*case, tables) for case in product(KINDS[:4], rows[:4])))
        powers = measure(measure_power, ((*case, tables) for case in product(KINDS_OF_POWER, SEEDS)))
        regret = measure(measure_regret, ((*cell, max(1, round(cases / len(cells)))) for cell in cells))
    studies, subsets = measure_own_studies(), measure_subsets()
    print(f"own studies {studies}\nsubsets of three of ten seeds {subsets}", flush=True)
    finish(
        "answers",
        {
            "false_better_max": max(case["now"] for case in (*errors, *over_examples)),
            "false_equal_max": max(max(case["now"], case["recommendation"]) for case in at_margin),
            "looks_max": max(max(case["planned"], case["not planned"]) for case in looks),
            "power_three_seeds": {case["variances"]: case["now"] for case in powers if case["seeds"] == SEEDS[0]},
            "regret_excess_max": max(
                cell["regret"]["now"] - min(value for name, value in cell["regret"].items() if name != "now")
                for cell in regret
            ),
            "undecided_before": sum(not study["decided_before"] for study in studies),
            "undecided_now": sum(study["verdict"] == "cannot tell" for study in studies),
            "undecidable": sum(not study["could_be_decided"] for study in studies),
            "own_studies": len(studies),
            "tables": tables,
            "effect": EFFECT,
            "error": errors,
            "error_over_examples": over_examples,
            "error_at_margin": at_margin,
            "error_over_looks": looks,
            "power": powers,
            "regret": regret,
            "studies": studies,
            "subsets": subsets,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
