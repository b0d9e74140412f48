"""`bln-search doctor` names each fault of a broken installation, and only that one."""

from __future__ import annotations

import errno
import json
import socket
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from sqlalchemy import text

from bln_search.cli.doctor.finding import FindingState, iter_check_findings, ok
from bln_search.cli.doctor.service_port import iter_service_port_findings
from bln_search.cli.doctor.storage import MAX_CLOCK_SKEW, iter_clock_findings
from bln_search.core.checkpoints import FolderStore
from bln_search.core.records import CheckpointRecord
from bln_search.core.version import VERSION
from bln_search.execution import self_test
from bln_search.execution.self_test import SelfTestResult
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.support.service_world import study


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def doctor(invoke, free_port):
    """A call with a free port, and without the small trial: its exit code, and the findings by name."""

    def _doctor(*words):
        words = words if "--port" in words else (*words, "--port", free_port)
        done = invoke("doctor", "--device", "cpu", "--json", "--quick", *words)
        document = json.loads(done.stdout)
        assert document["ok"] == (done.exit_code == 0)
        return done.exit_code, {check["name"]: check for check in document["checks"]}

    return _doctor


def faults(findings):
    return [name for name, finding in findings.items() if finding["state"] == "fault"]


def test_sound_installation_has_no_fault(doctor, home):
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")):
        code, findings = doctor()
    assert code == 0
    assert faults(findings) == []
    expected = ("versions", "device cpu", "precision", "database", "database writes", "clock", "disk space")
    assert {*expected, "home", "cache", "checkpoints", "service port"} <= findings.keys()
    assert {findings[name]["state"] for name in ("equality", "speed", "clock skew")} == {"skipped"}
    assert sorted(path.name for path in home.rglob("*") if "doctor" in path.name) == []


def test_doctor_creates_no_database(doctor, home):
    code, findings = doctor()
    assert code == 0
    assert findings["database"]["state"] == "ok"
    assert not (home / "ledger.sqlite3").exists()


def test_each_fault_has_its_remedy_on_the_screen(invoke, monkeypatch, free_port, pipe):
    monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", "s3x://nowhere")
    done = invoke("doctor", "--device", "cpu", "--quick", "--port", free_port)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    (fault,) = [number for number, line in enumerate(lines) if line.startswith("✗")]
    assert "s3x://nowhere" in lines[fault]
    assert "BLN_SEARCH_CHECKPOINTS" in lines[fault + 1]
    assert lines[-1] == "1 fault found"
    assert all(line.startswith(("✓", "–", "✗", " ")) for line in lines[:-1])


@pytest.mark.parametrize("url", ["postgresql+psycopg://nobody@127.0.0.1:1/x", "nonsense"])
def test_unreachable_database(doctor, url):
    code, findings = doctor("--database", url)
    assert code == 1
    assert faults(findings) == ["database"]


def test_file_that_is_no_database(doctor, tmp_path):
    (tmp_path / "file").write_text(100 * "this is no database")
    _, findings = doctor("--database", f"sqlite:///{tmp_path / 'file'}")
    assert faults(findings) == ["database"]
    assert "the server runs" not in findings["database"]["remedy"]


@pytest.mark.parametrize(("revision", "remedy"), [("9999", "upgrade bln-search"), ("0001", "bln-search db upgrade")])
def test_schema_of_another_version(doctor, home, revision, remedy):
    with (
        closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger,
        ledger.database.engine.begin() as connection,
    ):
        connection.execute(text(f"UPDATE bln_search_version SET version_num = '{revision}'"))
    code, findings = doctor()
    assert code == 1
    assert faults(findings) == ["database"]
    assert revision in findings["database"]["detail"]
    assert remedy in findings["database"]["remedy"]


def test_database_without_write_access(doctor, home):
    path = home / "ledger.sqlite3"
    open_and_upgrade_ledger(f"sqlite:///{path}").close()
    _, findings = doctor("--database", f"sqlite:///file:{path}?mode=ro&uri=true")
    assert faults(findings) == ["database writes"]


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("CACHE", "FILE/cache", "cache"),
        ("CHECKPOINTS", "FILE/folder", "checkpoints"),
        ("FREE_BYTES", str(10**18), "disk space"),
        ("DATA", "FILE-nowhere", "data sets"),
    ],
)
def test_setting_that_cannot_be_used(doctor, monkeypatch, tmp_path, variable, value, name):
    (tmp_path / "file").touch()
    monkeypatch.setenv(f"BLN_SEARCH_{variable}", value.replace("FILE", str(tmp_path / "file")))
    code, findings = doctor()
    assert code == 1
    assert name in faults(findings)
    assert findings[name]["remedy"]


def test_folder_of_another_user_is_named_with_what_to_do():
    def check():
        yield ok("data sets", "first")
        raise PermissionError(errno.EACCES, "Permission denied", "/there/home")

    _, finding = iter_check_findings("data sets", check)
    assert finding.detail == "/there/home: Permission denied"
    assert finding.remedy == "give this user read and write access, or set BLN_SEARCH_HOME"


def test_incomplete_data_set(doctor, monkeypatch, tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").touch()
    _, findings = doctor("--data", tmp_path)
    assert "data set mnist" in faults(findings)
    assert findings["data set mnist"]["remedy"] == "run `bln-search data fetch mnist`"
    assert not any("cifar" in name for name in faults(findings))


def test_a_missing_checkpoint_store_is_not_created(doctor, home):
    code, findings = doctor()
    assert (code, findings["checkpoints"]["state"]) == (0, "skipped")
    assert not (home / "checkpoints").exists()
    (home / "checkpoints").mkdir(parents=True)
    _, findings = doctor()
    assert findings["checkpoints"]["state"] == "ok"


def test_networks_that_the_store_lacks_are_a_fault(doctor, home):
    """As after `restore --without-damaged`."""
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        study_id = ledger.studies.store_study_once(study("one"))
        ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
        token = ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "host/1/0")
        ledger.attempts.record_checkpoint(token, CheckpointRecord("a.safetensors", 64 * "0", 1, "FFFF", 0.5, {}))
    store = FolderStore(home / "checkpoints")
    store.write("a.safetensors", b"a network")
    assert faults(doctor()[1]) == []
    store.delete("a.safetensors")
    code, findings = doctor()
    assert (code, faults(findings)) == (1, ["networks"])
    assert "lacks 1 network of the database" in findings["networks"]["detail"]


def test_store_of_another_host_is_a_fault(doctor, home, monkeypatch, tmp_path):
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        ledger.checkpoints.claim_store(FolderStore(home / "checkpoints"))
    assert faults(doctor()[1]) == []
    (tmp_path / "private").mkdir()
    for folder in (tmp_path / "private", tmp_path / "not mounted"):
        monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", str(folder))
        code, findings = doctor()
        assert (code, faults(findings)) == (1, ["checkpoints"])
        assert str(home / "checkpoints") in findings["checkpoints"]["detail"]
        assert "BLN_SEARCH_CHECKPOINTS" in findings["checkpoints"]["remedy"]


def test_missing_gpu(invoke, free_port):
    done = invoke("doctor", "--device", "cuda:97", "--json", "--port", free_port)
    assert done.exit_code == 1
    findings = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert faults(findings) == ["device"]
    assert findings["equality"]["state"] == findings["speed"]["state"] == "skipped"


def test_forced_tf32(doctor, monkeypatch):
    """It concerns GPUs only: without one nothing is said of it."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    for has_gpu in (True, False):
        monkeypatch.setattr("torch.cuda.is_available", lambda has_gpu=has_gpu: has_gpu)
        _, findings = doctor()
        assert faults(findings) == (["precision"] if has_gpu else [])
    assert "tf32" not in findings["precision"]["detail"]
    assert "cudnn" not in findings["precision"]["detail"]


class _Answer(BaseHTTPRequestHandler):
    content = b""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


@pytest.fixture
def listening():
    """A server whose answer the test sets; its port."""
    handler = type("Handler", (_Answer,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield handler, server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_port_of_another_program(doctor, listening):
    handler, port = listening
    for handler.content in (b"", b"hello", b"[]", b'{"name": "other"}'):
        _, findings = doctor("--port", port)
        assert faults(findings) == ["service port"]


def test_port_of_a_service(listening):
    handler, port = listening
    handler.content = json.dumps({"bln_search": VERSION, "schema_revision": "0012"}).encode()
    (finding,) = iter_service_port_findings("127.0.0.1", port)
    assert finding.state is FindingState.OK
    assert VERSION in finding.detail


@pytest.mark.parametrize("ahead", [-3600.0, -MAX_CLOCK_SKEW - 1, MAX_CLOCK_SKEW + 1, 3600.0])
def test_clock_skew(tmp_path, ahead):
    with closing(open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")) as ledger:
        findings = iter_clock_findings(ledger, lambda: datetime.now(UTC) - timedelta(seconds=ahead))
        assert [finding.name for finding in findings if finding.state is FindingState.FAULT] == ["clock skew"]


def test_small_trial_repeats_bit_by_bit_on_the_cpu(invoke, free_port, monkeypatch):
    monkeypatch.setattr(self_test, "_EXAMPLES", 50)
    monkeypatch.setattr(self_test, "_STEP_SECONDS", 0.1)
    done = invoke("doctor", "--device", "cpu", "--json", "--port", free_port)
    findings = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert faults(findings) == []
    assert findings["equality"]["state"] == findings["speed"]["state"] == "ok"


def test_device_that_computes_something_else(invoke, free_port, monkeypatch):
    losses = iter([{"FFFF": 1.0}, {"FFFF": 1.01}])
    monkeypatch.setattr(self_test, "run_self_test_trial", lambda _: SelfTestResult("x", next(losses), 100.0))
    done = invoke("doctor", "--device", "cpu", "--json", "--port", free_port)
    findings = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert faults(findings) == ["equality"]
