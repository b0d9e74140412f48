"""`bln-search validate` prints the plan of each arm."""

from __future__ import annotations

import pytest

from bln_search.specs import list_planned_trials, parse_study, planned_inference_rows

STUDY = """
name: planned
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn}]
seeds: [0, 1, 2]
evaluation: {batch_sizes: [1, 25]}
"""
SAMPLED = "space: {training.learning_rate: {kind: float, low: 1e-4, high: 0.1}}\nsearch: {sampler: random, trials: 2}\n"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def test_arms_are_records_with_their_trials(file, in_every_format):
    printed = in_every_format("validate", file)
    planned = list_planned_trials(parse_study(STUDY))
    assert printed.json == printed.jsonl
    assert [(record["arm"], record["method"], record["trials"]) for record in printed.json] == [
        ("bln", "bln", 3),
        ("bn", "bn", 3),
    ]
    assert sum(record["trials"] for record in printed.json) == len(planned)
    assert sum(record["evaluations"] for record in printed.json) == sum(
        2 * len(planned_inference_rows(trial)) for trial in planned
    )
    assert [row["rows"] for row in printed.csv] == [str(record["rows"]) for record in printed.json]


def test_trials_of_sampled_points_are_unknown(file, records):
    file.write_text(STUDY + SAMPLED)
    assert [record["trials"] for record in records("validate", file)] == [None, None]


def test_evaluations_that_conditions_add_are_printed(file, invoke):
    file.write_text(STUDY.replace("[1, 25]", "[1, 25], conditions: [fog, contrast-5]"))
    planned = sum(2 * 3 * len(planned_inference_rows(trial)) for trial in list_planned_trials(parse_study(STUDY)))
    printed = " ".join(invoke("validate", file).stdout.split())
    assert f"{planned} evaluations" in printed
    assert f"2 conditions add {planned * 2 // 3}" in printed
