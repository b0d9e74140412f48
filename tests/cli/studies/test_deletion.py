"""`bln-search delete` removes a study of the database or of a service, and its networks."""

from __future__ import annotations

import pytest

from bln_search.core.errors import StudyBusyError, UnknownStudyError
from tests.support.service_world import study


def checkpoints(world, study_id):
    """Files of the networks of a study, which are written."""
    folder = world.home / "checkpoints"
    folder.mkdir(exist_ok=True)
    files = [folder / trial.checkpoint.file for trial in world.ledger.trials.list_trials(study_id)]
    for file in files:
        file.write_bytes(b"network")
    return files


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_study_and_networks_are_removed(from_service, world, invoke, service):
    doomed, kept = world.complete("doomed"), world.complete("kept", seeds=(2, 3))
    files, kept_files = checkpoints(world, doomed), checkpoints(world, kept)
    done = invoke("delete", "doomed", "--yes", *(service if from_service else ()))
    assert done.exit_code == 0, done.output
    with pytest.raises(UnknownStudyError):
        world.ledger.studies.get(doomed)
    assert world.ledger.studies.get(kept).name == "kept"
    assert not any(file.exists() for file in files)
    assert all(file.exists() for file in kept_files)


@pytest.mark.parametrize("answer", ["", "y\n"])
def test_without_a_terminal_an_error_names_the_option(answer, world, invoke):
    study_id = world.complete("asked")
    refused = invoke("delete", "asked", input=answer)
    assert (refused.exit_code, refused.stdout) == (2, "")
    (message,) = refused.stderr.splitlines()
    assert message.startswith("error: ")
    assert "--yes" in message
    assert world.ledger.studies.get(study_id).name == "asked"


@pytest.mark.usefixtures("terminal")
def test_without_a_confirmation_nothing_is_deleted(world, invoke):
    study_id = world.complete("asked")
    assert invoke("delete", "asked", input="n\n").exit_code == 1
    assert world.ledger.studies.get(study_id).name == "asked"
    assert invoke("delete", "asked", input="y\n").exit_code == 0


def test_a_running_study_is_refused(world, invoke):
    study_id = world.queue.submit_study(study("running"), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    done = invoke("delete", "running", "--yes")
    assert isinstance(done.exception, StudyBusyError)
    assert world.ledger.studies.get(study_id).name == "running"


def test_networks_of_another_database_are_left(world, invoke, tmp_path, monkeypatch):
    study_id = world.complete("elsewhere")
    files = checkpoints(world, study_id)
    database = world.settings.database_url
    monkeypatch.setenv("BLN_SEARCH_DATABASE", f"sqlite:///{tmp_path / 'own.sqlite3'}")
    done = invoke("delete", "elsewhere", "--yes", "--database", database)
    assert done.exit_code == 0
    assert "checkpoints clean" in done.stderr
    assert all(file.exists() for file in files)


def test_an_unknown_study_is_not_found(world, invoke):
    assert isinstance(invoke("delete", "nothing", "--yes").exception, UnknownStudyError)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_confirmation_and_result_name_the_owner(from_service, world, invoke, service):
    study_id = world.queue.submit_study(study("waiting"), "ada").study_id
    done = invoke("delete", "waiting", *(service if from_service else ()), input="y\n")
    assert done.exit_code == 0
    assert f"study {study_id} (waiting, owner ada)" in done.stdout
    assert f"study {study_id} (waiting, owner ada)" in done.stderr
