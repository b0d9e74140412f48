"""`bln-search submit-results` sends a saved table; commands that need networks say that there are none."""

from __future__ import annotations

import json

import pytest
import torch

import bln_search
from bln_search.worker.analysis import compute_analysis
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
    compute_analysis(world.ledger, record["id"], None)
    shown = json.loads(invoke("show", "own", "--format", "json", *service).stdout)
    assert "training" not in shown["spec"]
    assert invoke("leaderboard", "own", *service).stdout == invoke("leaderboard", "own").stdout


def test_condition_is_named_for_a_table_of_several(world, invoke, service, tmp_path, network, batches):
    ranked = bln_search.evaluate_configurations(network, batches, {"clean": batches, "dark": batches})
    file = ranked.save(tmp_path / "ranked")
    refused = invoke("submit-results", file, "--name", "own", *service)
    assert refused.exit_code != 0
    assert "clean, dark" in str(refused.exception)
    sent = invoke("submit-results", file, "--name", "own", "--condition", "dark", *service)
    assert sent.exit_code == 0, sent.output
    assert len(world.ledger.studies.list_studies()) == 1


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
