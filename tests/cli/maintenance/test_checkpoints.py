"""`bln-search checkpoints clean`, and removed networks in other commands."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing

import pytest

from bln_search.core.enums import Scope
from bln_search.core.states import StudyState
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.end_to_end.commands import call
from tests.support.checkpoint_records import make_checkpoint_record, save_recommendation
from tests.support.numbers import numbers_in
from tests.support.service_world import make_evaluations, study

DAYS = 86_400


@pytest.fixture
def checkpoints(home):
    """A complete study of two arms, bln recommended; the files of both, three days old."""
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        ledger.tokens.create_token("ada", Scope.WRITE)
        submitted = study("done", seeds=(0,), arms="[{method: bln}, {method: bn}]")
        study_id = ledger.queue.submit_study(submitted, "ada").study_id
        ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
        for number, trial in enumerate(ledger.trials.list_claimable_trials(study_id), start=1):
            token = ledger.attempts.claim_trial(trial.id, "host/1/0")
            record = make_checkpoint_record(number)
            ledger.attempts.record_checkpoint(token, record)
            ledger.attempts.finish_trial(token, make_evaluations(0) if trial.spec.arm.label == "bln" else ())
            make_old(home, record.file)
        assert ledger.studies.finish_run(study_id, runner="host/1/0") is StudyState.COMPLETE
        save_recommendation(ledger, study_id, "bln")
    make_old(home, f"{99:032x}.safetensors")
    return home / "checkpoints"


def make_old(home, name):
    (home / "checkpoints").mkdir(exist_ok=True)
    file = home / "checkpoints" / name
    file.write_bytes(b"x" * 500_000)
    os.utime(file, (time.time() - 3 * DAYS,) * 2)


def clean(*options, check=0):
    return call("checkpoints", "clean", *options, check=check)


def test_dry_run_removes_nothing(checkpoints):
    before = sorted(checkpoints.iterdir())
    files, megabytes, networks = 1, 0.5, 1
    assert numbers_in(clean("--dry-run").stdout) == [files, megabytes]
    output = clean("--dry-run", "--keep", "recommended").stdout
    assert numbers_in(output) == [2 * files, 2 * megabytes, networks]
    assert output.count("would be removed") == 2
    assert sorted(checkpoints.iterdir()) == before
    recent = 1
    assert numbers_in(clean("--dry-run", "--older-than", "7d").stdout) == [0, 0, recent]


def test_what_would_be_removed_is_a_record(checkpoints):
    record = json.loads(clean("--dry-run", "--keep", "recommended", "--format", "json").stdout)
    assert record == {
        "removed": False,
        "files": 2,
        "bytes": 1_000_000,
        "networks": 1,
        "too_recent": 0,
        "unknown": 0,
    }


def test_commands_name_the_removed_networks(checkpoints):
    files, megabytes, networks = 1, 0.5, 1
    assert numbers_in(clean().stdout) == [files, megabytes]
    assert numbers_in(clean("--keep", "recommended").stdout) == [files, megabytes, networks]
    assert [file.name for file in checkpoints.iterdir()] == [f"{1:032x}.safetensors"]
    assert numbers_in(clean("--keep", "recommended").stdout) == [0, 0]
    assert '"bn"' in call("show", "done", "--format", "json", check=0).stdout
    with closing(open_and_upgrade_ledger(f"sqlite:///{checkpoints.parent / 'ledger.sqlite3'}")) as ledger:
        trials = ledger.trials.list_finished_full_trials(ledger.studies.get_by_name_or_id("done").id)
    assert [trial.freed_at is None for trial in trials].count(False) == 1


@pytest.mark.parametrize("age", ["59m", "0d", "soon", "1w", "-1d"])
def test_invalid_or_too_short_age_is_one_clear_error(checkpoints, age):
    before = sorted(checkpoints.iterdir())
    assert "--older-than" in clean(f"--older-than={age}", check=2).stderr
    assert sorted(checkpoints.iterdir()) == before


def test_another_database_needs_its_checkpoint_folder(checkpoints, tmp_path):
    before = sorted(checkpoints.iterdir())
    error_output = clean("--database", f"sqlite:///{tmp_path / 'other.sqlite3'}", check=2).stderr
    assert "BLN_SEARCH_CHECKPOINTS" in error_output
    assert sorted(checkpoints.iterdir()) == before
