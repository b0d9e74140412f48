"""`bln-search checkpoints clean`, and what the other verbs say of networks that were given up."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing

import pytest

from bln_search.core.enums import Scope
from bln_search.core.states import StudyState
from bln_search.storage.ledger import open_ledger
from tests.end_to_end.commands import call
from tests.support.checkpoint_records import make_checkpoint_record, save_recommendation
from tests.support.service_world import make_evaluations, study

DAYS = 86_400


@pytest.fixture
def kept(home):
    """A complete study of two arms, bln recommended; the files of both, three days old."""
    with closing(open_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        ledger.tokens.create("ada", Scope.WRITE)
        asked = study("done", seeds=(0,), arms="[{method: bln}, {method: bn}]")
        study_id = ledger.queue.submit(asked, "ada").study_id
        ledger.studies.start(study_id, lambda _: True, "host/1/0")
        for number, trial in enumerate(ledger.trials.list_open(study_id), start=1):
            token = ledger.attempts.claim_trial(trial.id, "host/1/0")
            made = make_checkpoint_record(number)
            ledger.attempts.record_checkpoint(token, made)
            ledger.attempts.finish_trial(token, make_evaluations(0) if trial.spec.arm.label == "bln" else ())
            old(home, made.file)
        assert ledger.studies.finish(study_id, runner="host/1/0") is StudyState.COMPLETE
        save_recommendation(ledger, study_id, "bln")
    old(home, f"{99:032x}.safetensors")
    return home / "checkpoints"


def old(home, name):
    (home / "checkpoints").mkdir(exist_ok=True)
    file = home / "checkpoints" / name
    file.write_bytes(b"x" * 500_000)
    os.utime(file, (time.time() - 3 * DAYS,) * 2)


def clean(*options, check=0):
    return call("checkpoints", "clean", *options, check=check)


def test_looking_removes_nothing(kept):
    before = sorted(kept.iterdir())
    assert clean("--dry-run").stdout == "1 files would be removed, 0.5 MB\n"
    said = clean("--dry-run", "--keep", "recommended").stdout
    assert said == "2 files would be removed, 1.0 MB; 1 networks would be removed from their studies\n"
    assert sorted(kept.iterdir()) == before
    said = clean("--dry-run", "--older-than", "7d").stdout
    assert said == "0 files would be removed, 0.0 MB; 1 are too recent\n"


def test_what_would_be_removed_is_a_record(kept):
    record = json.loads(clean("--dry-run", "--keep", "recommended", "--format", "json").stdout)
    assert record == {
        "removed": False,
        "files": 2,
        "bytes": 1_000_000,
        "networks": 1,
        "too_recent": 0,
        "unknown": 0,
    }


def test_commands_name_the_networks_that_were_removed(kept):
    assert clean().stdout == "1 files removed, 0.5 MB\n"
    assert clean("--keep", "recommended").stdout == "1 files removed, 0.5 MB; 1 networks removed from their studies\n"
    assert [file.name for file in kept.iterdir()] == [f"{1:032x}.safetensors"]
    assert clean("--keep", "recommended").stdout == "0 files removed, 0.0 MB\n"
    assert '"bn"' in call("show", "done", "--format", "json", check=0).stdout
    with closing(open_ledger(f"sqlite:///{kept.parent / 'ledger.sqlite3'}")) as ledger:
        found = ledger.trials.list_trained(ledger.studies.find("done").id)
    assert [one.freed_at is None for one in found].count(False) == 1


@pytest.mark.parametrize("age", ["59m", "0d", "soon", "1w", "-1d"])
def test_an_age_that_is_none_or_too_short_is_one_clear_error(kept, age):
    before = sorted(kept.iterdir())
    assert "--older-than" in clean(f"--older-than={age}", check=2).stderr
    assert sorted(kept.iterdir()) == before


def test_another_database_needs_its_checkpoint_folder(kept, tmp_path):
    before = sorted(kept.iterdir())
    error_output = clean("--database", f"sqlite:///{tmp_path / 'other.sqlite3'}", check=2).stderr
    assert "BLN_SEARCH_CHECKPOINTS" in error_output
    assert sorted(kept.iterdir()) == before
