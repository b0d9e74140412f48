"""The cells of the AP2 paper's experiments are those of their files, and unmeasured ones say so."""

from __future__ import annotations

import json

import pytest

from bench.documents.ap2 import page
from bench.documents.ap2.cells import ARMS, DATA, STARTS, Cell, mean_rise, study_name
from bench.documents.ap2.format import NOT_RUN
from bench.documents.marked_block import read_block
from bench.documents.papers import ap2_claims
from bench.documents.papers.marks import Expected, Mark, adjusted_p_values, mark_claim
from bench.support import reporting

SEEDS = (0, 1, 2)
LOSSES = {"none": 0.5, "wn": 0.31, "bn": 0.3, "ap2": 0.29}


def saved_arm(arm, *, rate=0.01, shift=0.0):
    """An arm of a file: the training loss of its last epoch is about that of LOSSES plus `shift`."""
    by_epoch = [[value + shift + 0.001 * seed for seed in SEEDS] for value in (0.9, 1.1, LOSSES[arm])]
    records = [
        {"epoch": epoch, "seeds": values, "mean": values[1], "band": [values[0], values[2]]}
        for epoch, values in enumerate(by_epoch, start=1)
    ]
    measures = ("training_loss", "training_accuracy", "validation_loss", "validation_accuracy", "seconds")
    rows = {"---- -": 0.4, "AA-- -": 0.4, "TT-- moving": 0.35, "FF-- -": 0.45}
    return {
        "learning_rate": rate,
        "search": [],
        "epochs": dict.fromkeys(measures, records),
        "rows": {
            row: {
                split: {str(seed): [loss - 0.1 * (split == "train") + 0.001 * seed, 0.9] for seed in SEEDS}
                for split in ("validation", "train", "test")
            }
            for row, loss in rows.items()
        },
    }


@pytest.fixture(name="results")
def _results(monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)

    def save(data, start, arms):
        document = {
            "result": {"spec": {"seeds": SEEDS, "training": {"epochs": 3}}, "arms": arms},
            "provenance": {"hardware": "2 × CPU", "versions": {"torch": "2"}},
        }
        (tmp_path / f"{study_name(data, start)}.json").write_text(json.dumps(document))

    return save


def test_the_page_is_current():
    assert read_block(page.PAGE, page.BLOCK) == page.block(), "run python -m bench.documents.ap2.page --write"


def test_an_unmeasured_cell_has_no_figures(results):
    results("mnist", "bn", {"ap2": saved_arm("ap2")})
    lines = [line for line in page.block().split("### noisy MNIST")[0].splitlines() if line.startswith("| ")]
    measured = [line for line in lines[2:] if NOT_RUN not in line]
    assert len(lines) == 2 + len(STARTS) * len(ARMS)  # head, rule and cells
    assert [line.split("|")[1:3] for line in measured] == [[" BN ", " AP2 "]]


def test_a_cell_has_the_values_of_its_file(results):
    results("mnist", "none", {"bn": saved_arm("bn", rate=0.001)})
    cell = Cell("mnist", "none", "bn")
    assert cell.log_rate == pytest.approx(-3)
    assert cell.at_last_epoch("training_loss") == pytest.approx({seed: 0.3 + 0.001 * seed for seed in SEEDS})
    assert cell.row() == pytest.approx({seed: 0.35 + 0.001 * seed for seed in SEEDS})
    assert cell.row("FF-- -", "train", 1) == dict.fromkeys(SEEDS, 0.9)
    assert cell.gap() == pytest.approx(dict.fromkeys(SEEDS, 0.1))
    assert cell.rise("validation_loss") == pytest.approx(dict.fromkeys(SEEDS, 0.1))
    assert Cell("mnist", "none", "wn").row() is None


def test_the_mean_rise_leaves_decreases_out():
    assert mean_rise([3.0, 1.0, 2.0, 1.5, 4.5]) == pytest.approx((1.0 + 3.0) / 4)
    assert mean_rise([3.0, 2.0, 1.0]) == 0


@pytest.mark.parametrize(
    ("after_ap2", "mark"),
    [(0.01, Mark.FAILS), (0.02, Mark.FAILS), (0.005, Mark.UNKNOWN), (0.003, Mark.HOLDS), (0.0001, Mark.HOLDS)],
)
def test_a_learning_rate_is_ten_times_smaller_from_a_third_on(results, after_ap2, mark):
    assert ap2_claims.rate_mark("mnist") is Mark.MISSING
    results("mnist", "bn", {"bn": saved_arm("bn", rate=0.01)})
    results("mnist", "ap2", {"bn": saved_arm("bn", rate=after_ap2)})
    assert ap2_claims.rate_mark("mnist") is mark


def test_claims_compare_the_arms_that_they_name(results):
    results("mnist", "bn", {arm: saved_arm(arm) for arm in ARMS})
    results("mnist", "none", {arm: saved_arm(arm, shift=0.3 if arm == "none" else 0.0) for arm in ARMS})
    claims = {claim.text: claim for claim in ap2_claims.claims()}
    adjusted = adjusted_p_values(list(claims.values()))
    marks = {text: mark_claim(claim, adjusted) for text, claim in claims.items()}
    hard = claims["After start none the plain network is hard to train: MNIST"]
    assert [part.differences[0] for part in hard.comparisons] == pytest.approx([0.3, 0.51])
    assert marks[hard.text] is Mark.HOLDS
    assert marks["After start BN the four methods are close (within 0.12): MNIST"] is Mark.FAILS  # none is 0.2 higher
    assert marks["AP2 trains well after every start (training losses within 0.12): MNIST"] is Mark.HOLDS
    assert marks["After start AP2 BN oscillates: MNIST"] is Mark.MISSING
    assert marks["After start none the plain network is hard to train: noisy MNIST"] is Mark.MISSING


def test_every_difference_is_named_once():
    parts = [part for claim in ap2_claims.claims() for part in claim.comparisons]
    assert len({(part.study, part.setting) for part in parts}) == len(set(parts))
    assert {part.margin is None for part in parts if part.expected is Expected.SMALL} == {False}
    assert {data for data in DATA if any(DATA[data] in part.setting for part in parts)} == set(DATA)
