"""What results say, and probes, with the command."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.commands import call

pytestmark = pytest.mark.slow

STUDY = """
name: small
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 2}
seeds: [0, 1]
probes: {epochs: 1}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A home with one finished study, and what `run` printed."""
    home = tmp_path_factory.mktemp("home")
    (home / "small.yaml").write_text(STUDY)
    return home, call("run", home / "small.yaml", "--workers", "1", home=home, check=0).stdout


def test_run_prints_verdicts_and_the_recommendation(finished):
    _, printed = finished
    (headline,) = [line for line in printed.splitlines() if line.startswith("Recommended: bln ")]
    (marked,) = [line for line in printed.splitlines() if line.startswith("*  ")]
    assert headline.split()[2] in marked
    assert "Effects of the switches" not in printed
    detailed = call("leaderboard", "small", "--details", home=finished[0], check=0).stdout
    assert headline in detailed
    assert "Effects of the switches" in detailed


def test_analyze_says_it_again_with_every_difference_and_as_json(finished):
    home, printed = finished
    table = call("analyze", "small", home=home, check=0).stdout
    assert next(line for line in printed.splitlines() if line.startswith("Recommended: bln")) in table
    document = json.loads(call("analyze", "small", "--format", "json", home=home, check=0).stdout)
    rows = document["comparison"]["rows"]
    assert len(rows) == 16
    assert [row["verdict"] for row in rows].count("best") == 1
    assert document["recommendation"]["configuration"] in [row["configuration"] for row in rows]
    assert {effect["metric"] for effect in document["effects"]} == {"loss", "accuracy"}
    assert {latency["batch_size"] for latency in document["latencies"]} == {1, 25}


def test_probe_does_not_train_and_keeps_earlier_results(finished):
    home, _ = finished
    error_output = call("probe", "small", "--batch-sizes", "1,8", "--reshuffles", "2", home=home, check=0).stderr
    assert "bln seed 1: 64 figures (2/2)" in error_output  # sixteen rows at two sizes, reshuffled and of one class
    report = home / "report.html"
    call("report", "small", "--output", report, home=home, check=0)
    page = report.read_text(encoding="utf-8")
    for shown in ("Loss at other batch sizes", "Loss after other epochs", "Dependence on the mini-batch"):
        assert shown in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("probe", "small"), "choose what to measure"),
        (("probe", "small", "--batch-sizes", "1,x"), "not a list of sizes"),
        (("probe", "small", "--batch-sizes", "0"), "not a list of sizes"),
        (("probe", "small", "--batch-sizes", "100000"), "larger than the data"),
        (("probe", "nothing", "--batch-sizes", "1"), "no study 'nothing'"),
        (("analyze", "nothing"), "no study 'nothing'"),
        (("analyze", "small", "--format", "csv"), "not one of 'table', 'json'"),
    ],
)
def test_a_mistake_is_one_sentence(finished, words, sentence):
    home, _ = finished
    process = call(*words, home=home)
    assert process.returncode in (2, 3, 4)
    assert sentence in " ".join(process.stderr.replace("│", " ").split())
    assert "Traceback" not in process.stderr


def test_the_recommended_row_is_exported(finished, tmp_path):
    pytest.importorskip("onnxruntime")
    home, _ = finished
    recommendation = json.loads(call("analyze", "small", "--format", "json", home=home, check=0).stdout)[
        "recommendation"
    ]
    call("export", "small", "--config", "recommended", "--output", tmp_path / "out", home=home, check=0)
    described = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert described["row"]["configuration"] == recommendation["configuration"]
