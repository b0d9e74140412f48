"""A network taken along with the command, and a study's figures made again from its checkpoints."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3

import pytest

from bln_search.storage.outcome_codec import decode_losses_and_correctness, encode_losses_and_correctness
from tests.docs.pages import PAGES, blocks
from tests.end_to_end.commands import call
from tests.end_to_end.small_study import EXPORT_STUDY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A home with one finished study of two trials."""
    home = tmp_path_factory.mktemp("home")
    (home / "small.yaml").write_text(EXPORT_STUDY)
    call("run", home / "small.yaml", "--workers", "1", home=home, check=0)
    return home


@pytest.fixture
def own(finished, tmp_path):
    """A copy of that home, to be spoilt."""
    shutil.copytree(finished, tmp_path / "own")
    return tmp_path / "own"


def ask(home, question, *values):
    """The rows that a statement gives, in the database of `home`; what it changes is kept."""
    connection = sqlite3.connect(home / "ledger.sqlite3")
    with connection:
        rows = connection.execute(question, values).fetchall()
    connection.close()
    return rows


SEEDS = """
    SELECT trial.seed, evaluation.loss FROM evaluation JOIN checkpoint ON checkpoint.id = evaluation.checkpoint_id
    JOIN trial ON trial.id = checkpoint.trial_id WHERE configuration = ? AND estimate = ? AND batch_size = ?
    AND split = 'validation'
"""


def test_best_row_is_exported_with_its_best_seed(finished, tmp_path):
    board = json.loads(call("leaderboard", "small", "--format", "json", home=finished, check=0).stdout)
    best = board["rows"][0]
    process = call(
        *("export", "small", "--config", "best", "--output", tmp_path / "out", "--format", "json"),
        home=finished,
        check=0,
    )
    assert json.loads(process.stdout)["parity"]["largest_difference"] <= 1e-5
    document = json.loads((tmp_path / "out" / "configuration.json").read_text())
    code, estimate, size = (document["row"][name] for name in ("configuration", "estimate", "batch_size"))
    assert (code, estimate, size) == (best["configuration"], best["population"], best["batch_size"])
    losses = dict(ask(finished, SEEDS, code, estimate or "", size))
    assert document["origin"]["seed"] == min(losses, key=losses.get)
    assert document["figures"]["this_seed"]["validation"]["loss"] == min(losses.values())
    mean = sum(losses.values()) / 2
    assert document["figures"]["over_seeds"]["validation"]["loss"] == pytest.approx(mean, abs=1e-12)
    (shown,) = blocks(PAGES["start.md"], "python")
    names = {}
    exec(shown.text.replace('"best"', repr(str(tmp_path / "out"))), names)
    assert names["logits"].shape == (25, 10)


def test_a_row_and_a_seed_can_be_named(finished, tmp_path):
    words = ("--config", "TTTT", "--estimate", "epoch", "--batch-size", "40", "--arm", "bln", "--seed", "1")
    output = call("export", "small", *words, "--output", tmp_path / "deep" / "out", home=finished, check=0).stdout
    assert "bln seed 1 TTTT epoch at 40, folded into affine steps" in output
    document = json.loads((tmp_path / "deep" / "out" / "configuration.json").read_text())
    assert (document["origin"]["seed"], document["folded"]) == (1, True)


def test_every_stored_evaluation_is_made_again_bit_for_bit(finished):
    before = ask(finished, "SELECT count(*), max(id) FROM event")
    process = call("verify", "small", "--format", "json", home=finished, check=0)
    document = json.loads(process.stdout)
    rows = ask(finished, "SELECT count(*) FROM evaluation")[0][0]
    assert (document["compared"], document["identical"], document["different"]) == (rows, rows, 0)
    assert document["verdict"] == "identical"
    assert [trial["problem"] for trial in document["trials"]] == [None, None]
    assert ask(finished, "SELECT count(*), max(id) FROM event") == before


def test_a_stored_loss_that_was_changed_is_found(own):
    ask(own, "UPDATE evaluation SET loss = loss + 1e-9 WHERE id = 3")
    output = call("verify", "small", home=own, check=1).stdout
    assert re.search(
        r"bln seed 0: .* 1 different, by at most \S+e-10; first T... \w+ at 25 on \w+: loss$", output, re.M
    )
    assert re.search(r"bln seed 1: .* all identical$", output, re.M)


def test_one_changed_example_and_a_row_that_is_gone_are_found(own):
    ((number, losses, correct, n),) = ask(
        own, "SELECT evaluation_id, losses, correct, n FROM outcomes JOIN evaluation ON id = evaluation_id LIMIT 1"
    )
    outcomes = decode_losses_and_correctness(losses, correct, n)
    outcomes.losses[5] += 0.5
    ask(
        own,
        "UPDATE outcomes SET losses = ? WHERE evaluation_id = ?",
        encode_losses_and_correctness(outcomes)[0],
        number,
    )
    ask(own, "DELETE FROM evaluation WHERE id = (SELECT max(id) FROM evaluation)")
    document = json.loads(call("verify", "small", "--format", "json", home=own, check=1).stdout)
    assert document["different"] == 2
    assert document["largest_difference"] == pytest.approx(0.5, rel=0.9)
    assert "losses of examples" in document["trials"][0]["first"]
    assert "not stored" in document["trials"][1]["first"]


def test_damaged_or_missing_checkpoint_names_its_trial(own):
    files = dict(ask(own, "SELECT trial.seed, file FROM checkpoint JOIN trial ON trial.id = trial_id"))
    damaged, lost = (own / "checkpoints" / files[seed] for seed in (0, 1))
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    lost.unlink()
    output = call("verify", "small", home=own, check=1).stdout
    assert "bln seed 0: not reproduced: the checkpoint" in output
    assert "is damaged: its SHA-256 is" in output
    assert "bln seed 1: not reproduced: the checkpoint" in output
    assert "2 trials not reproduced" in output


def test_losses_on_another_device_or_version_may_be_close(own):
    ask(own, "UPDATE checkpoint SET provenance = json_set(provenance, '$.torch', '1.0')")
    ask(own, "UPDATE evaluation SET loss = loss + 1e-6 WHERE id = 3")
    ask(own, "UPDATE evaluation SET loss = loss + 1e-2 WHERE id = 4")
    output = call("verify", "small", home=own, check=1).stdout
    assert "1 close, 1 different" in output
    assert "torch 1.0 then," in output
    assert "1 within 0.0001 on another device, hardware or version of torch, or by other code" in output


def test_losses_within_the_tolerance_are_a_success(own):
    ask(own, "UPDATE checkpoint SET provenance = json_set(provenance, '$.torch', '1.0')")
    ask(own, "UPDATE evaluation SET loss = loss + 1e-6 WHERE id = 3")
    document = json.loads(call("verify", "small", "--format", "json", home=own, check=0).stdout)
    assert (document["verdict"], document["close"], document["different"]) == ("within_tolerance", 1, 0)
    assert {trial["verdict"] for trial in document["trials"]} == {"within_tolerance", "identical"}
    assert "reproduced within the tolerance" in call("verify", "small", home=own, check=0).stdout
