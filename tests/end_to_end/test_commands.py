"""Every verb, and every bad input with one clear error, an exit code, and nothing half-written."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import newest_known_schema_revision
from tests.conftest import ROOT
from tests.end_to_end.commands import call
from tests.support.printed_tables import printed_ranks

SMALL = """
name: small
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 1}
seeds: [0]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A home with one finished study."""
    home = tmp_path_factory.mktemp("home")
    (home / "small.yaml").write_text(SMALL)
    process = call("run", home / "small.yaml", home=home, check=0)
    assert "small" in process.stdout
    return home


def test_the_table_has_sixteen_ranked_rows_in_every_format(finished):
    lines = list(csv.DictReader(io.StringIO(call("leaderboard", "small", "--format", "csv", home=finished).stdout)))
    assert [line["rank"] for line in lines] == [str(n) for n in range(1, 17)]
    document = json.loads(call("leaderboard", "small", "--format", "json", home=finished, check=0).stdout)
    assert (document["study"], document["state"], len(document["rows"])) == ("small", "complete", 16)
    table = call("leaderboard", "1", "--limit", "3", home=finished, check=0).stdout
    assert printed_ranks(table) == [1, 2, 3]


def test_list_and_show(finished):
    assert "complete" in call("list", home=finished, check=0).stdout
    document = json.loads(call("show", "small", "--format", "json", home=finished, check=0).stdout)
    assert document["trial_list"][0]["state"] == "finished"
    assert document["trial_list"][0]["checkpoint"]["judged_under"] == "FFFF"
    assert document["spec"]["training"]["epochs"] == 1


def test_running_it_again_only_prints_the_table(finished):
    again = call("run", finished / "small.yaml", home=finished, check=0)
    assert "0 trials to run" in again.stderr


@pytest.mark.slow
def test_a_study_without_a_table_names_an_older_one_that_has_one(finished, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(finished, home)
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        newer = ledger.studies.store_study_once(parse_study(SMALL.replace("seeds: [0]", "seeds: [1]")))
        ledger.studies.lease_and_start(newer, lambda _: False, "somebody")
        ledger.studies.fail_unless_claimed(newer, "somebody", "nothing could be done")
    error_output = call("leaderboard", "small", home=home, check=0).stderr
    assert "study small is failed and has no result yet; an older study of this name is complete" in error_output
    assert "`bln-search leaderboard 1`" in error_output
    (home / "again.yaml").write_text(SMALL.replace("seeds: [0]", "seeds: [2]"))
    call("run", home / "again.yaml", home=home, check=0)
    assert "leaderboard 1`" in call("leaderboard", str(newer), home=home, check=0).stderr, "none of the newer ones"


def test_database_and_version(finished):
    status = call("db", "status", home=finished, check=0).stdout
    assert (
        f"schema revision {newest_known_schema_revision()}; this version of bln-search writes "
        f"{newest_known_schema_revision()}" in status
    )
    assert f"schema revision {newest_known_schema_revision()}" in call("db", "upgrade", home=finished, check=0).stdout
    assert call("--version", check=0).stdout.startswith("bln-search ")


def test_data_verbs(tmp_path):
    listed = call("data", "list", "--data", tmp_path, check=0).stdout
    assert "6 of 6 missing" in listed
    assert "no file to verify" in call("data", "verify", "digits", check=0).stdout
    missing = call("data", "verify", "mnist", "--data", tmp_path, check=3)
    assert "train-images-idx3-ubyte" in missing.stderr


def test_real_files_are_verified(real_data):
    verified = call("data", "verify", "mnist", "--data", real_data, check=0).stdout
    assert "4 files verified" in verified
    assert "6bbc9ace898e44ae57da46a324031adb" in verified


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_study_that_ships_can_be_validated(path):
    assert "the file is valid" in call("validate", path, check=0).stdout


def edited(*pairs):
    text = SMALL
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


BAD = {
    "unknown key": (edited(("seeds:", "sedes:")), 3, "did you mean `seeds`?"),
    "misspelled norm": (
        edited(("bln}", "bnl}")),
        3,
        "'bn', 'ln', 'bln', 'mbn', 'brn', 'wn', 'normprop', 'ap2' or 'none', not 'bnl'",
    ),
    "negative epochs": (edited(("epochs: 1", "epochs: -1")), 3, "training.epochs"),
    "unknown data": (edited(("name: digits", "name: digit")), 3, "choose one of cifar10, cifar100, diabetes, digits"),
    "missing data": (edited(("name: digits", "name: cifar10")), 3, "data_batch_1.bin"),
    "unknown model": (
        edited(("name: mlp", "name: mpl")),
        3,
        "there is no model 'mpl'; choose one of ",
    ),
    "wrong option": (edited(("name: mlp", "name: lenet")), 3, "widths"),
    "measurements wanted of words": (
        edited(("name: digits", "name: imdb")),
        3,
        "the model mlp takes measurements, imdb consists of token ids: choose one of",
    ),
    "network too large for the images": (
        edited(("{name: mlp, widths: [8]}", "{name: lenet}")),
        3,
        "at least 12×12 pixels",
    ),
    "no mini-batch left": (
        edited(("fraction: 0.2", "fraction: 0.02"), ("validation: 200", "validation: 700")),
        3,
        "larger than the train split, which has 15",
    ),
    "no example left": (edited(("fraction: 0.2", "fraction: 1.0e-6")), 3, "leaves none"),
    "batch larger than data": (edited(("epochs: 1", "epochs: 1, batch_size: 5000")), 3, "larger than the"),
    "inference batch larger than data": (
        SMALL + "evaluation: {batch_sizes: [4000]}\n",
        3,
        "larger than the",
    ),
    "device that is not there": (SMALL, 3, "cannot be used"),
    "empty space": (SMALL + "space: {}\n", 3, "the space is empty"),
    "contradictory space": (
        SMALL + "space: {training.learning_rate: {kind: float, low: 1, high: 0.1}}\n",
        3,
        "low must be less than high",
    ),
    "sampler that cannot take the space": (
        SMALL + "space: {training.batch_size: {kind: choice, values: [8, 16]}}\nsearch: {sampler: cmaes}\n",
        3,
        "the sampler cmaes takes numbers only, training.batch_size is a choice",
    ),
    "point that no arm can take": (
        SMALL + "space: {arm.lambda: {kind: schedule, values: [0.1]}}\n",
        3,
        "lambda belongs to mbn",
    ),
    "network too small for a point": (
        SMALL + "space: {training.batch_size: {kind: choice, values: [25, 3000]}}\n",
        3,
        "larger than the",
    ),
    "cluster that cannot be reached": (SMALL, 1, "no Ray cluster at 127.0.0.1:1"),
    "more GPUs than there are": (SMALL, 1, "a trial asks for 4 GPUs, no node of the Ray cluster has more than 0"),
}
EXTRA = {
    "device that is not there": ["--device", "cuda:7"],
    "cluster that cannot be reached": ["--executor", "ray", "--ray-address", "127.0.0.1:1"],
    "more GPUs than there are": ["--executor", "ray", "--gpus-per-trial", "4"],
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "ray" in EXTRA.get(name, []) else name for name in BAD]
)
def test_bad_input_is_one_clear_error_and_nothing_is_written(name, tmp_path):
    text, code, message = BAD[name]
    (tmp_path / "study.yaml").write_text(text)
    process = call("run", tmp_path / "study.yaml", *EXTRA.get(name, []), home=tmp_path / "home")
    assert process.returncode == code, process.stderr
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stderr.count("error:") == 1
    assert process.stdout == ""
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_sampled_study_is_shown_before_and_after_its_points(tmp_path):
    space = "space: {training.learning_rate: {kind: float, low: 1e-4, high: 0.1, log: true}}\n"
    text = SMALL + space + "search: {sampler: random, trials: 2}\n"
    (tmp_path / "study.yaml").write_text(text)
    study = parse_study(text)
    opened = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'home' / 'ledger.sqlite3'}")
    opened.studies.store_study_once(study)
    opened.close()
    home = tmp_path / "home"
    assert call("show", "small", home=home, check=0).stdout.count("small")
    call("leaderboard", "small", home=home, check=0)
    assert "at points that random suggests" in call("validate", tmp_path / "study.yaml", check=0).stdout
    board = call("run", tmp_path / "study.yaml", "--format", "csv", home=home, check=0).stdout
    points = {row["parameters"] for row in csv.DictReader(io.StringIO(board))}
    assert len(points) == 2
    assert all(json.loads(point).keys() == {"training.learning_rate"} for point in points)
    document = json.loads(call("show", "small", "--format", "json", home=home, check=0).stdout)
    assert {trial["point"] for trial in document["trial_list"]} == points
    assert all(trial["parameters"].startswith("learning_rate=") for trial in document["trial_list"])


@pytest.mark.parametrize(
    "name",
    [
        "unknown data",
        "unknown model",
        "wrong option",
        "unknown key",
        "measurements wanted of words",
        "batch larger than data",
        "inference batch larger than data",
    ],
)
def test_validate_finds_it_too(name, tmp_path):
    text, code, message = BAD[name]
    (tmp_path / "study.yaml").write_text(text)
    assert message in call("validate", tmp_path / "study.yaml", check=code).stderr


def test_a_corrupt_data_file_names_its_checksum(tmp_path):
    (tmp_path / "study.yaml").write_text(edited(("name: digits", "name: mnist")))
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03corrupt")
    process = call("run", tmp_path / "study.yaml", "--data", tmp_path, home=tmp_path / "home", check=3)
    assert "6bbc9ace898e44ae57da46a324031adb" in process.stderr
    assert not (tmp_path / "home").exists()


def test_unknown_study_and_missing_file_differ_in_exit_code(finished, tmp_path):
    assert call("leaderboard", "nothing", home=finished).returncode == 4
    assert call("run", tmp_path / "none.yaml", home=finished).returncode == 3
    assert call("leaderboard", home=finished).returncode == 2
    assert call("leaderboard", "small", "--arm", "nobody", home=finished).returncode == 2
    assert call("leaderboard", "small", "--split", "train", home=finished).returncode == 2


def test_a_variable_that_cannot_be_used_is_named(finished, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_THREADS", "none")
    refused = call("list", home=finished, check=3)
    assert "BLN_SEARCH_THREADS" in refused.stderr


@pytest.mark.slow
def test_titles_are_text_not_markup(tmp_path):
    (tmp_path / "study.yaml").write_text(edited(("name: small", "name: small\ntitle: 'see [/b] there'")))
    assert "see [/b] there" in call("validate", tmp_path / "study.yaml", check=0).stdout
    assert "see [/b] there" in call("run", tmp_path / "study.yaml", home=tmp_path, check=0).stdout
    assert "see [/b] there" in call("show", "small", home=tmp_path, check=0).stdout


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    call("db", "upgrade", home=tmp_path, check=0)
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
        connection.execute("UPDATE bln_search_version SET version_num = '9999'")
    connection.close()
    refused = call("list", home=tmp_path, check=1)
    assert "written by a newer version" in refused.stderr


@pytest.mark.slow
def test_study_with_a_diverged_trial_is_complete(tmp_path):
    text = edited(("{epochs: 1}", "{epochs: 2, optimizer: sgd, learning_rate: 1.0e+30}"))
    (tmp_path / "study.yaml").write_text(text)
    process = call("run", tmp_path / "study.yaml", home=tmp_path, check=0)
    assert "diverged" in process.stdout
    assert "is not a finite number" in process.stdout
    assert "complete" in call("list", home=tmp_path, check=0).stdout
