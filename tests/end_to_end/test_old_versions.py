"""A study that an earlier version began is finished by this one; what the earlier one had measured stays."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import tarfile

import pytest
from sqlalchemy import text

from bln_search.storage.engine import make_engine, write_session
from bln_search.storage.migration import VERSION_TABLE, find_database_schema_revision, newest_known_schema_revision
from bln_search.storage.tables import StudyRow
from tests.conftest import ROOT
from tests.end_to_end.commands import call, command
from tests.end_to_end.service import OneByOne, Service, until
from tests.end_to_end.small_study import STUDY, list_events, run_alone, wait_until_complete
from tests.support.database_rows import read_all_rows

pytestmark = [pytest.mark.slow, pytest.mark.promise, pytest.mark.xdist_group("old versions")]

OLD = {"0005": "f3e447709874f02d3a3d0223324cda6a16750acd"}
"""By schema revision the first commit that wrote it."""

SPEC = {
    "name": "small",
    "data": {"name": "digits", "fraction": 0.2},
    "model": {"name": "mlp", "widths": [8]},
    "arms": [{"method": "bln"}],
    "seeds": [0, 1, 2],
    "training": {"epochs": 60, "batch_size": 25},
}


@pytest.fixture(scope="module")
def old_code(tmp_path_factory):
    """The program as it was when it wrote schema revision 0005."""
    packed = subprocess.run(["git", "archive", OLD["0005"]], cwd=ROOT, capture_output=True)
    if packed.returncode:
        pytest.skip("the history is not here: this is no clone, or a shallow one")
    folder = tmp_path_factory.mktemp("old") / "bln-search"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.replace("EPOCHS", "60").replace("[0, 1]", "[0, 1, 2]"))
    return path


@pytest.fixture
def engine(url):
    """Connections to the database of the test, closed after a failure too."""
    engine = make_engine(url)
    yield engine
    engine.dispose()


def table_alone(file, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BLN_SEARCH_DATABASE")
        return run_alone(file, tmp_path)


def begin(service):
    """A study of which one trial is finished and another under way when the machine loses its power."""
    service.start()
    with service.client() as client:
        study = client.submit(SPEC)["id"]
        until(lambda: client.study(study)["progress"]["ended"] >= 1, 120)
        until(lambda: client.study(study)["progress"]["running"] == 1, 60)
        assert client.study(study)["state"] == "running"
    service.kill()
    return study


def go_on(service, study):
    """By this version; what the older one had finished is kept. Returns the table."""
    service.start()
    with service.client() as client:
        assert client.study(study)["progress"]["ended"] >= 1
        wait_until_complete(client, study, 240)
    assert service.stop() == 0
    return call("leaderboard", study, "--format", "csv", home=service.home, check=0).stdout


def stored(engine):
    """Every evaluation, as it was measured."""
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text("SELECT * FROM evaluation ORDER BY id"))]


def rows_without_unrecorded_code(csv_text):
    """The rows of a table whose first results do not name their code, which its last column says in every row."""
    (*header, last), *lines = csv.reader(io.StringIO(csv_text))
    assert last == "code_changes"
    assert all("was not recorded" in line[-1] for line in lines)
    return [header, *(line[:-1] for line in lines)]


def assert_close(lines, others):
    """The same rows in the same order; figures, some of them differences of losses, differ in the last digits."""
    assert len(lines) == len(others) == 1 + 16
    for line, expected in zip(lines, others, strict=True):
        for cell, wanted in zip(line, expected, strict=True):
            assert cell == wanted or float(cell) == pytest.approx(float(wanted), rel=1e-6, abs=1e-7), (line, expected)


def test_study_begun_by_an_older_version_is_completed(old_code, url, engine, file, tmp_path, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_DATABASE", url)
    study = begin(OneByOne(tmp_path / "home", code=old_code))
    assert find_database_schema_revision(engine) == "0005"
    measured = stored(engine)
    if engine.dialect.name == "sqlite":  # otherwise the start of the service upgrades the database
        upgraded = call("db", "upgrade", home=tmp_path / "home", check=0)
        assert f"schema revision {newest_known_schema_revision()}" in upgraded.stdout
    table = rows_without_unrecorded_code(go_on(Service(tmp_path / "home"), study))
    assert_close(table, list(csv.reader(io.StringIO(table_alone(file, tmp_path)))))
    assert measured
    upgraded = stored(engine)[: len(measured)]
    assert [row[:-2] for row in upgraded] == measured, "the last columns are new: the condition and the metrics"
    assert {row[-2:] for row in upgraded} == {("", None)}
    before = read_all_rows(engine)
    words = command("worker", "--once")
    environment = {**os.environ, "PYTHONPATH": str(old_code), "BLN_SEARCH_HOME": str(tmp_path / "home")}
    late = subprocess.run(words, capture_output=True, text=True, timeout=240, env=environment, cwd=old_code)
    assert late.returncode == 1
    assert "which this version of bln-search does not know: it was written by a newer version" in late.stderr
    assert len(late.stderr.strip().splitlines()) == 1
    assert read_all_rows(engine) == before


def test_worker_stops_when_its_database_is_upgraded(url, tmp_path, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_DATABASE", url)
    service = Service(tmp_path / "home", "--no-worker").start()
    engine = make_engine(url)
    worker = subprocess.Popen(
        command("worker"), stderr=subprocess.PIPE, text=True, env={**os.environ, "BLN_SEARCH_HOME": str(service.home)}
    )
    try:
        with service.client() as client:
            study = client.submit({**SPEC, "training": {"epochs": 3000, "batch_size": 25}})["id"]
            until(lambda: any(event["kind"] == "epoch" for event in list_events(service, study)), 120)
        service.stop()
        with write_session(engine) as session:
            session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        said = worker.communicate(timeout=240)[1]
        assert worker.returncode == 1
        last = said.strip().splitlines()[-1]
        assert last.startswith("error: the database has the schema revision 9999 now")
        assert "Traceback" not in said
        rows = read_all_rows(engine)
        state = list(StudyRow.__table__.columns.keys()).index("state")
        assert [row[state] for row in rows["study"]] == ["running"]  # its lease expires and another worker reclaims it
        assert len(rows["worker"]) == 1
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.communicate()
        if service.process.poll() is None:
            service.stop()
        engine.dispose()
