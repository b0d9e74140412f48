"""Log files of `serve` and `worker` are separate and bounded."""

from __future__ import annotations

import httpx
import pytest

from tests.end_to_end.commands import call
from tests.end_to_end.service import Service, until


@pytest.mark.parametrize("verb", [["serve", "--no-worker", "--port", "0"], ["worker", "--once"]])
def test_impossible_log_file_is_one_clear_error(verb, tmp_path, home, monkeypatch):
    (tmp_path / "in_the_way").write_text("")
    monkeypatch.setenv("BLN_SEARCH_LOG_FILE", str(tmp_path / "in_the_way" / "service.log"))
    process = call(*verb, check=1)
    assert len(process.stderr.splitlines()) == 1
    assert process.stderr.startswith(f"error: the log file {tmp_path / 'in_the_way'}")
    assert "BLN_SEARCH_LOG_FILE" in process.stderr


@pytest.mark.slow
def test_service_and_worker_rotate_separate_log_files(tmp_path, home):
    logs = tmp_path / "logs"
    settings = {"LOG_FILE": str(logs / "bln-search.log"), "LOG_FILE_BYTES": "2000", "LOG_FILE_COUNT": "2"}
    service = Service(home, **{f"BLN_SEARCH_{name}": value for name, value in settings.items()}).start()
    try:
        until((logs / "bln-search.worker.log").is_file, 60)
        with httpx.Client(base_url=service.address) as client:
            for _ in range(200):
                client.get("/healthz")
        service.ready()
    finally:
        service.stop()
    files = {file.name: file for file in logs.iterdir() if not file.name.startswith(".")}
    service_files = {"bln-search.log", "bln-search.log.1", "bln-search.log.2"}
    assert files.keys() == service_files | {"bln-search.worker.log"}
    assert all(file.stat().st_size <= 2000 for file in files.values())
    assert any(" INFO GET /" in files[name].read_text() for name in service_files)
    assert "this log is also in " in files["bln-search.worker.log"].read_text()
    assert " INFO GET /" not in files["bln-search.worker.log"].read_text()
    assert service.log.read_text().count("GET /healthz 200") >= 200
