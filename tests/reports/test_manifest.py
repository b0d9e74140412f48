"""The manifest identifies study, data, code and machine of the results."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta

import pytest

from bln_search.core.states import TrialState
from bln_search.reports.environment_info import collect_environment_info, find_git_revision
from bln_search.reports.manifest import build_study_manifest, manifest_to_json
from tests.reports.studies import START, study, trial

MACHINE = {"bln_search": "1", "git_revision": None}


def make_manifest(trials, written_at=START):
    return build_study_manifest(study(), trials, machine=MACHINE, schema="0003", now=written_at)


def test_manifest_has_every_trial_with_checkpoint_and_provenance():
    document = make_manifest(
        [trial(7, 1, device="cpu", drift=[1, 2]), trial(8, 2, state=TrialState.FAILED, reason="no memory")]
    )
    first, second = document["trials"]
    assert first["checkpoint"]["sha256"] == f"{7:064x}"
    assert first["checkpoint"]["provenance"] == {"torch": "2.13", "device": "cpu"}
    assert (second["state"], second["reason"], second["checkpoint"]) == ("failed", "no memory", None)
    assert document["study"]["digest"] == study().spec.digest
    assert (document["schema"], document["seeds"], document["written_by"]) == ("0003", [0, 1], MACHINE)


@pytest.mark.parametrize(
    ("hashes", "sha256", "differing"),
    [((None, None), None, []), ((None, "a"), "a", []), (("a", "a"), "a", []), (("b", "a"), None, ["a", "b"])],
)
def test_data_has_one_hash_or_lists_differing_hashes(hashes, sha256, differing):
    trials = [trial(n, **({"data_sha256": value} if value else {})) for n, value in enumerate(hashes)]
    assert make_manifest(trials)["data"] == {"name": "digits", "sha256": sha256, "differing": differing}
    assert [trial_record["data_sha256"] for trial_record in make_manifest(trials)["trials"]] == list(hashes)


def test_only_the_writing_time_changes_and_keys_are_sorted():
    first, second = (manifest_to_json(make_manifest([trial(1)], START + timedelta(hours=n))) for n in (0, 1))
    lines = zip(first.splitlines(), second.splitlines(), strict=True)
    assert [line for line, other_line in lines if line != other_line] == [' "written_at": "2026-05-01T12:00:00+00:00",']
    document = json.loads(first)
    assert list(document) == sorted(document)
    assert list(document["study"]["spec"]) == sorted(document["study"]["spec"])


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_revision_is_that_of_its_own_checkout_only(tmp_path, monkeypatch):
    assert find_git_revision(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert find_git_revision(tmp_path) == head
    (tmp_path / "file").write_text("two")
    assert find_git_revision(tmp_path) == f"{head}-dirty"
    (tmp_path / "inner").mkdir()
    assert find_git_revision(tmp_path / "inner") is None
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert find_git_revision(tmp_path / "inner") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_git_revision(tmp_path) is None


def test_versions_are_those_of_installed_packages():
    import numpy as np

    assert collect_environment_info()["packages"]["numpy"] == np.__version__
