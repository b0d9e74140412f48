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

from bench.support.answers.errors import (
    EFFECT,
    measure_error,
    measure_error_at_margin,
    measure_error_over_examples,
    measure_error_over_looks,
    measure_power,
)
from bench.support.answers.own_studies import measure_own_studies, measure_subsets
from bench.support.answers.regret import measure_regret
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
    errors = [
        measure_error(kind, count, seeds, tables if count < max(ROWS) else tables // 8)
        for kind in KINDS
        for count in rows
        for seeds in SEEDS
    ]
    print("error", max(case["now"] for case in errors), flush=True)
    over_examples = [
        measure_error_over_examples(8, seeds, examples, 2 * example_tables)
        for examples in EXAMPLES
        for seeds in (1, *SEEDS)
    ]
    print("error over examples", max(case["now"] for case in over_examples), flush=True)
    at_margin = [
        measure_error_at_margin(kind, count, seeds, error, example_tables)
        for kind in KINDS[:4]
        for count in (2, 16)
        for seeds in SEEDS
        for error in ERRORS_IN_MARGINS
    ]
    for case in at_margin:
        print("error at the margin", case, flush=True)
    looks = [measure_error_over_looks(kind, count, tables) for kind in KINDS[:4] for count in rows[:4]]
    print("error over looks", max(case["planned"] for case in looks), flush=True)
    powers = [measure_power(kind, seeds, tables) for kind in KINDS_OF_POWER for seeds in SEEDS]
    for case in powers:
        print("power", case, flush=True)
    regret = measure_regret(cases)
    for cell in regret:
        print("regret", cell, flush=True)
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
