"""The benchmarks of estimated times: the studies that they run are valid, and the table shows what was measured."""

from __future__ import annotations

import pytest

from bench import time_estimate, time_estimates
from bench.documents import time_estimates_block
from bln_search.specs import load_study, parse_study


@pytest.mark.parametrize("text", time_estimate.STUDIES.values(), ids=str.split)
def test_the_compared_studies_are_valid(text):
    assert parse_study(text).seeds


@pytest.mark.parametrize("name", time_estimates.STUDIES)
def test_the_estimated_studies_are_files(name):
    assert load_study(time_estimates.ROOT / "studies" / f"{name}.yaml").name == name


def study(*arms, seconds):
    return {
        "trials": 6,
        "workers": 2,
        "seconds_of_study": seconds,
        "arms": [{"seconds_per_step_median": step, "seconds_per_trial": trial} for step, trial in arms],
    }


def test_a_row_has_the_range_of_its_arms_and_says_what_was_not_measured(monkeypatch):
    first, second, *_ = time_estimates.STUDIES
    document = {
        "result": {"studies": {first: study((0.5, 7_200), (0.002, 60), seconds=400_000)}},
        "provenance": {"hardware": "2 × processor", "versions": {"torch": "2.13"}},
    }
    monkeypatch.setattr(
        time_estimates_block, "read_result", lambda file: document if file == "time_estimates_cpu" else None
    )
    rows = {
        line.split("|")[1].strip(" `"): line.split("|")[2:-1] for line in time_estimates_block.block().splitlines()[3:]
    }
    cells = [cell.strip() for cell in rows[first]]
    assert cells == ["6", "2 to 500", "60 s to 2 h 0 min", "4 d 15 h", "not measured"]
    assert [cell.strip() for cell in rows[second]] == ["", "", "", "not measured", "not measured"]
