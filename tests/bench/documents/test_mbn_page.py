"""Conclusions about MBN come from the rows of its rule of inference, paired by seed."""

from __future__ import annotations

import json

import pytest

from bench.documents import mbn_claims, mbn_curves, mbn_page, mbn_results
from bench.documents.curves_command import BLOCK as CURVES
from bench.documents.marked_block import read_block
from bench.documents.mbn_claims import Claim, equality_verdict
from bench.documents.mbn_results import StudyRow, errors_of
from bench.support import reporting


def saved_study(accuracies):
    return {
        "spec": {"seeds": [4, 9]},
        "loss_and_accuracy_by_seed": {
            label: {
                f"{split} seed {seed}": [1.0, value]
                for seed, value in zip((4, 9), values, strict=True)
                for split in ("test",)
            }
            for label, values in accuracies.items()
        },
    }


def test_tables_come_from_their_files():
    assert read_block(mbn_page.PAGE, mbn_page.BLOCK) == mbn_page.block(), (
        "run python -m bench.documents.mbn_page --write"
    )


def test_curves_come_from_their_file():
    assert read_block(mbn_page.PAGE, CURVES) == mbn_curves.block(), "run python -m bench.documents.mbn_curves --write"


def test_errors_are_those_of_the_rule_of_inference_in_the_order_of_the_seeds():
    saved = saved_study(
        {
            "bn TT-- moving 16": [0.5, 0.25],
            "bn TT-- frozen 16": [0.0, 0.0],
            "mbn lambda=0.1 MM-- - 16": [0.75, 0.5],
            "mbn lambda=0.1 LL-- - 16": [0.0, 0.0],
            "mbn lambda=0.1 TT-- frozen 16": [0.125, 0.0],
        }
    )
    assert errors_of(saved, StudyRow("bn")) == [50.0, 75.0]
    assert errors_of(saved, StudyRow("mbn", "lambda=0.1")) == [25.0, 50.0]
    assert errors_of(saved, StudyRow("mbn", "lambda=0.1", "TT--", "frozen")) == [87.5, 100.0]
    assert errors_of(saved, StudyRow("mbn", "lambda=0.9")) is None


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.1, -0.1, 0.0], "holds"),
        ([5.0, 5.1, 4.9], "does not hold"),
        ([-5.0, -5.1, -4.9], "does not hold"),
        ([0.0, 3.0, -3.0], "cannot tell"),
    ],
)
def test_rows_are_equal_where_the_interval_lies_within_a_point(differences, expected):
    assert equality_verdict(differences) == expected


def test_p_values_are_corrected_over_the_claims_of_a_study(monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    study = "mbn_lambda_cifar10_small"
    steps = [0.5, 0.5001]
    labels = {
        f"mbn lambda={value} MM-- - 8": [0.4, 0.4 + 0.001 * index] for index, value in enumerate((0, 0.1, 0.5, 0.9))
    }
    saved = saved_study({f"mbn {mbn_results.STEPS} MM-- - 8": steps} | labels)
    (tmp_path / f"{study}.json").write_text(json.dumps(saved))
    lines = mbn_claims.study_lines(study)
    assert [line.split("|")[1].strip().rpartition(" ")[2] for line in lines] == ["0", "0.1", "0.5", "0.9"]
    assert [float(line.split("|")[3].split()[0]) for line in lines] == pytest.approx(
        [-10.0, -9.95, -9.91, -9.86], abs=0.011
    )
    smallest = min(float(line.split("|")[4]) for line in lines)
    assert smallest > 4 * 0.0003  # the paired t test of the first claim alone


def test_every_claim_compares_two_rows():
    claims: list[Claim] = [claim for study in mbn_page.LOW_RATE.values() for claim in mbn_claims.claims_of(study)]
    assert all(claim.first != claim.second for claim in claims)
