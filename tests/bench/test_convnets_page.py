"""A claim holds, does not hold, or cannot be told, by the interval of its difference."""

from __future__ import annotations

import pytest

from bench.documents.convnets_page import CLAIMS, USUAL_ROWS, differences_of, verdict


@pytest.mark.parametrize(
    ("differences", "p", "expected"),
    [
        ([-0.1, -0.11, -0.09], 0.01, "holds"),
        ([0.1, 0.11, 0.09], 0.01, "does not hold"),
        ([-0.1, 0.2, -0.3], 0.4, "cannot tell"),
        ([-0.1, -0.11, -0.09], 0.06, "cannot tell"),
    ],
)
def test_a_verdict_needs_a_significant_difference(differences, p, expected):
    assert verdict(differences, p) == expected


def test_differences_are_those_of_the_usual_rows_by_seed():
    losses = {"none": 2.0, "bn": 1.0, "ln-position": 1.75, "ln-layer": 1.5}
    rows, by_seed, arms = [], {}, {}
    for arm, (code, estimate) in USUAL_ROWS.items():
        for row_code, row_estimate, added in ((code, estimate, 0.0), ("other", "frozen", -1.0)):
            rows.append({"arm": arm, "configuration": row_code, "population": row_estimate, "batch_size": 25})
            by_seed[f"{arm} {row_code} {row_estimate or '-'} 25"] = {
                f"{split} seed {seed}": [losses[arm] + added + seed / 8, 0.5]
                for split in ("validation", "test")
                for seed in (0, 1)
            }
        arms[arm] = {"validation_error": [{"seeds": [10 * losses[arm], 11 * losses[arm]]}]}
    study = {"rows": rows, "loss_and_accuracy_by_seed": by_seed, "spec": {"seeds": [0, 1]}}
    measured = dict(zip(CLAIMS, differences_of(study, {"arms": arms}), strict=True))
    assert measured["bn", "none"] == ([-10.0, -11.0], [-1.0, -1.0])
    assert measured["ln-layer", "ln-position"] == ([-2.5, -2.75], [-0.25, -0.25])
