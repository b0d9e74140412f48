"""`bln-search submit-results` sends a saved table; commands that need networks say that there are none."""

from __future__ import annotations

import json

import pytest
import torch

import bln_search
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.external_results import submit


@pytest.fixture(scope="module")
def batches():
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(10, 4, generator=generator), torch.randint(0, 2, (10,), generator=generator)) for _ in "ab"]


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), bln_search.LN(3), torch.nn.Linear(3, 2))


def test_saved_table_becomes_a_study_once(world, invoke, service, tmp_path, network, batches):
    file = bln_search.evaluate_configurations(network, batches, batches).save(tmp_path / "ranked")
    words = ("submit-results", file, "--name", "own", "--title", "Mine", "--format", "json", *service)
    sent = invoke(*words)
    assert sent.exit_code == 0, sent.output
    record = json.loads(sent.stdout)
    assert (record["name"], record["owner"], record["state"], record["new"]) == ("own", "ada", "complete", True)
    assert json.loads(invoke(*words).stdout) == {**record, "new": False}
    compute_and_store_analysis(world.ledger, record["id"], None)
    shown = json.loads(invoke("show", "own", "--format", "json", *service).stdout)
    assert "training" not in shown["spec"]
    assert invoke("leaderboard", "own", *service).stdout == invoke("leaderboard", "own").stdout


@pytest.mark.parametrize(
    ("words", "ranking", "others"),
    [
        ((), "night", ["dark"]),
        (("--ranked-under", "dark"), "dark", ["night"]),
        (("--condition", "dark"), "", []),
    ],
)
def test_conditions_of_a_saved_table_are_one_study(
    words, ranking, others, world, invoke, service, tmp_path, network, batches
):
    file = bln_search.evaluate_configurations(network, batches, {"night": batches, "dark": batches}).save(
        tmp_path / "ranked"
    )
    sent = invoke("submit-results", file, "--name", "own", *words, *service)
    assert sent.exit_code == 0, sent.output
    (study,) = world.ledger.studies.list_studies()
    external = world.ledger.studies.get(study.id).spec.external
    assert (external.ranking_condition, list(external.conditions)) == (ranking, others)


def test_unknown_conditions_of_a_saved_table_are_one_clear_error(invoke, service, tmp_path, network, batches):
    several = bln_search.evaluate_configurations(network, batches, {"night": batches, "dark": batches}).save(
        tmp_path / "several"
    )
    single = bln_search.evaluate_configurations(network, batches, batches).save(tmp_path / "single")
    for file, option, words in (
        (several, "--condition", "no condition day: choose one of night, dark"),
        (several, "--ranked-under", "no condition day: choose one of night, dark"),
        (single, "--condition", "has no conditions"),
        (single, "--ranked-under", "has no conditions"),
    ):
        refused = invoke("submit-results", file, "--name", "own", option, "day", *service)
        assert refused.exit_code != 0
        assert words in str(refused.exception)


def test_leaderboard_of_a_regression_names_its_loss(world, invoke, service, tmp_path, network, batches):
    data = [(x, x[:, :2]) for x, _ in batches]
    file = bln_search.evaluate_configurations(network, data, data, score="mse").save(tmp_path / "ranked")
    assert invoke("submit-results", file, "--name", "own", *service).exit_code == 0
    (study,) = world.ledger.studies.list_studies()
    compute_and_store_analysis(world.ledger, study.id, None)
    for command in (("leaderboard", "own"), ("leaderboard", "own", "--details"), ("analyze", "own")):
        shown = invoke(*command, *service)
        assert shown.exit_code == 0, shown.output
        assert "squared error" in " ".join(shown.stdout.split())
        assert "accuracy" not in shown.stdout
        assert "nats" not in shown.stdout
    assert invoke("report", "own", "--output", tmp_path / "report").exit_code == 0
    page = next(path for path in [tmp_path / "report", *(tmp_path / "report").glob("*.html")] if path.is_file())
    text = page.read_text().lower()
    assert "mean squared error" in text
    assert "accuracy %" not in text
    assert "(nats)" not in text
    for format_name in ("json", "csv", "latex", "markdown"):
        assert invoke("leaderboard", "own", "--format", format_name, *service).exit_code == 0


@pytest.mark.parametrize("words", [("verify",), ("search-layers",), ("probe", "--batch-sizes", "1")])
def test_commands_that_need_networks_are_one_clear_error(words, world, invoke):
    study_id = submit(world.ledger).study_id
    command, *options = words
    refused = invoke(command, study_id, *options)
    assert refused.exit_code != 0
    assert "has external results" in str(refused.exception)


def test_reports_say_that_networks_were_trained_elsewhere(world, invoke, tmp_path):
    study_id = submit(world.ledger, networks=2).study_id
    for command in ("report", "manifest"):
        done = invoke(command, study_id, "--output", tmp_path / command)
        assert done.exit_code == 0, done.output
    page = next(path for path in [tmp_path / "report", *(tmp_path / "report").glob("*.html")] if path.is_file())
    assert "trained and evaluated elsewhere" in page.read_text()
