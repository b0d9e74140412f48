"""Two tests of the claims of a paper, in simulated tables of rows: Student's t and moderated variances.

The claims name a part of the pairs of rows. Compared are

- *t*: Student's paired t test with Holm's correction over these pairs, the rule of a mark;
- *moderated*: variances moderated by all pairs of the rows, corrected over all pairs, as the product ranks rows;
- *moderated part*: the same p values with Holm's correction over the claimed pairs alone.

Claimed are the pairs of one row with each other row, or all pairs. *Error* is the share of tables of equal rows in
which a claimed pair is significant; the one row is that which varies most. *Power* is the share of claimed pairs with a
true difference that are significant: half of the other rows are worse than a row by `EFFECTS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bench.support.answers.tables import KINDS, Floats, contrasts_of_pairs, draw_seed_means, scales_of_rows
from bench.support.reporting import finish, make_parser
from bln_search.ranking.paired.seed_variances import estimate_seed_variances
from bln_search.ranking.statistics.intervals import ALPHA, adjust_p_values_by_holm

VARIANCES = ("equal", "log-normal", "two groups", "one outlier")
ROWS = (4, 8, 12)
EFFECTS = {3: 5.0, 5: 2.0, 10: 1.25}
"""True differences by number of seeds, in standard deviations of the difference under one seed."""

TESTS = ("t", "moderated", "moderated part")


Mask = NDArray[np.bool_]


class PairTests:
    """Corrected p values of the pairs of a table by each test.

    Args:
        means: Mean losses, (S seeds, R rows).
    """

    def __init__(self, means: Floats) -> None:
        seeds, rows = means.shape
        self.pairs = np.triu_indices(rows, 1)
        contrasts = contrasts_of_pairs(means, self.pairs)
        self._t = 2 * special.stdtr(seeds - 1, -np.abs(contrasts.mean) / np.sqrt(contrasts.of_seeds))
        moderated = estimate_seed_variances(contrasts.of_seeds, seeds - 1, self.pairs, rows)
        noise = contrasts.of_examples[0]
        self._moderated = moderated.p_values(contrasts.mean, *noise)
        self._adjusted = moderated.adjusted_p_values(contrasts.mean, *noise, self.pairs, ALPHA)

    def claims(self, row: int) -> dict[str, Mask]:
        """Return which pairs are claimed, (P,): those with a row, or all."""
        first, second = self.pairs
        return {"one with all": (first == row) | (second == row), "all pairs": np.ones(len(first), np.bool_)}

    def significant_pairs(self, claimed: Mask) -> dict[str, Mask]:
        """Return by test which pairs are claimed and significant, (P,)."""
        adjusted = {"t": _by_holm(self._t, claimed), "moderated part": _by_holm(self._moderated, claimed)}
        return {name: claimed & (adjusted.get(name, self._adjusted) < ALPHA) for name in TESTS}


def _by_holm(p: Floats, claimed: Mask) -> Floats:
    adjusted = np.ones(len(p))
    adjusted[claimed] = adjust_p_values_by_holm(p[claimed].tolist())
    return adjusted


def measure_error(variances: str, rows: int, seeds: int, tables: int) -> dict[str, Any]:
    """Return the error of each test by what is claimed."""
    rng = np.random.default_rng([KINDS.index(variances), rows, seeds, 0])
    errors: dict[str, Counter[str]] = defaultdict(Counter)
    for _ in range(tables):
        scales = scales_of_rows(variances, rows, rng)
        table = PairTests(draw_seed_means(rng, seeds, scales))
        for part, claimed in table.claims(int(scales.argmax())).items():
            errors[part].update({name: int(pairs.any()) for name, pairs in table.significant_pairs(claimed).items()})
    return _case(variances, rows, seeds, errors, tables)


def measure_power(variances: str, rows: int, seeds: int, tables: int) -> dict[str, Any]:
    """Return the power of each test by what is claimed."""
    rng = np.random.default_rng([KINDS.index(variances), rows, seeds, 1])
    powers: dict[str, Counter[str]] = defaultdict(Counter)
    for _ in range(tables):
        scales = scales_of_rows(variances, rows, rng)
        row, *others = (int(index) for index in rng.permutation(rows))
        worse = others[: rows // 2]
        offsets = np.zeros(rows)
        offsets[worse] = EFFECTS[seeds] * np.hypot(scales[row], scales[worse])
        table = PairTests(draw_seed_means(rng, seeds, scales) + offsets)
        is_different = np.isin(table.pairs[0], worse) != np.isin(table.pairs[1], worse)
        for part, claimed in table.claims(row).items():
            found = table.significant_pairs(claimed)
            powers[part].update({name: float(pairs[claimed & is_different].mean()) for name, pairs in found.items()})
    return _case(variances, rows, seeds, powers, tables)


def _case(
    variances: str, rows: int, seeds: int, sums: Mapping[str, Mapping[str, float]], tables: int
) -> dict[str, Any]:
    shares = {
        part: {name: round(value / tables, 4) for name, value in of_part.items()} for part, of_part in sums.items()
    }
    return {"variances": variances, "rows": rows, "seeds": seeds, **shares}


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    tables, shifted = (50, 20) if options.quick else (2_000, 500)
    cases = list(product(VARIANCES, ROWS, EFFECTS))
    errors = [measure_error(*case, tables) for case in cases]
    powers = [measure_power(*case, shifted) for case in cases]
    finish(
        "mark_tests",
        {
            "tables": tables,
            "tables_of_power": shifted,
            "effects": EFFECTS,
            "error_max": {
                name: max(case[part][name] for case in errors for part in ("one with all", "all pairs"))
                for name in TESTS
            },
            "error": errors,
            "power": powers,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
