"""A service loses its database and its checkpoints, and has them again from a backup, whichever database it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest
from sqlalchemy.engine import make_url

from tests.contracts.conftest import execute
from tests.end_to_end.commands import call
from tests.end_to_end.service import OneByOne, Service, until
from tests.end_to_end.small_study import STUDY, make_spec, run_alone, wait_until_complete

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("backup")]


@pytest.fixture
def service(tmp_path, url, monkeypatch):
    """Over SQLite or Postgres; commands find the same database."""
    monkeypatch.setenv("BLN_SEARCH_DATABASE", url)
    made = Service(tmp_path / "home").start()
    yield made
    if made.process.poll() is None:
        made.stop()


def destroy(service, url):
    """Nothing is left of the database and the checkpoints."""
    database = make_url(url)
    if database.get_backend_name() == "sqlite":
        for file in Path(database.database).parent.glob("ledger.sqlite3*"):
            file.unlink()
    else:
        server = database.set(database="postgres")
        execute(server, f"DROP DATABASE {database.database} WITH (FORCE)", f"CREATE DATABASE {database.database}")
    shutil.rmtree(service.home / "checkpoints")


def answers(service, study):
    """The ranked table as the service gives it, byte by byte, and what stands beside it."""
    address = f"{service.address}/api/v1/studies/{study}"
    paths = ("leaderboard", "leaderboard?format=csv", "trials", "evaluations?limit=200", "curves", "analysis")
    found = {
        path: httpx.get(f"{address}/{path}", headers={"Authorization": f"Bearer {service.token}"}) for path in paths
    }
    assert {answer.status_code for answer in found.values()} == {200}
    return {path: answer.content for path, answer in found.items()}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
def test_the_leaderboard_is_the_same_to_the_byte(service, url, tmp_path):
    with service.client() as client:
        study = client.submit(make_spec(3))["id"]
        wait_until_complete(client, study)
        assert client.analysis(study, wait=60) is not None
    before = answers(service, study)
    said = call("backup", tmp_path / "backups", home=service.home, check=0)
    assert "1 study, 2 checkpoints" in said.stdout
    assert service.stop() == 0
    destroy(service, url)
    assert "Traceback" not in call("restore", tmp_path / "backups", "--dry-run", home=service.home, check=0).stderr
    said = call("restore", tmp_path / "backups", home=service.home, check=0)
    assert "(2 written, 0 stored already), restored; " in said.stdout
    assert "0 studies wait to resume" in said.stdout
    service.start()
    assert answers(service, study) == before
    assert call("verify", study, home=service.home, check=0).stdout.endswith(" 0 different\n")
    call("export", study, "--output", tmp_path / "network", home=service.home, check=0)
    again = call("restore", tmp_path / "backups", home=service.home, check=1)
    assert "has 1 study: --overwrite" in again.stderr
    assert len(again.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
def test_backup_of_a_running_study_can_be_completed(url, tmp_path, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_DATABASE", url)
    service = OneByOne(tmp_path / "home").start()
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.replace("EPOCHS", "100").replace("[0, 1]", "[0, 1, 2]"))
    with service.client() as client:
        study = client.submit({**make_spec(100), "seeds": [0, 1, 2]})["id"]
        until(lambda: client.study(study)["progress"]["ended"] >= 1, 120)
        until(lambda: client.study(study)["progress"]["running"] == 1, 60)
        call("backup", tmp_path / "backups", home=service.home, check=0)
        assert client.study(study)["state"] == "running"
    service.kill()
    destroy(service, url)
    process = call("restore", tmp_path / "backups", home=service.home, check=0)
    assert "1 study waits to resume" in process.stdout
    shown = call("list", "--format", "csv", home=service.home, check=0).stdout.splitlines()[1]
    assert shown.startswith("1,small,admin,accepted,,3,")
    service.start()
    with service.client() as client:
        assert client.study(study)["progress"]["ended"] >= 1
        wait_until_complete(client, study, 240)
    service.stop()
    csv = call("leaderboard", study, "--format", "csv", home=service.home, check=0).stdout
    assert csv == table_alone(file, tmp_path)


def table_alone(file, tmp_path):
    """Of a run that nobody disturbs, in a database of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BLN_SEARCH_DATABASE")
        return run_alone(file, tmp_path)
