"""Each log file belongs to one process, and the size of all is bounded."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from bln_search.core.errors import OutputFileError
from bln_search.core.files.log_files import LogFileSettings, open_first_unlocked_log_handler
from bln_search.core.logs import configure_logging


@pytest.fixture
def open_log():
    """Open log files that are closed again."""
    handlers = []

    def open_one(path, size=1000, older=2):
        handlers.append(open_first_unlocked_log_handler(LogFileSettings(path, size, older)))
        return handlers[-1]

    yield open_one
    for handler in handlers:
        handler.close()


def write(handler, lines):
    for number in range(lines):
        handler.emit(logging.makeLogRecord({"msg": f"line {number:04} {'x' * 80}"}))


def test_log_files_are_rotated_and_the_oldest_deleted(open_log, tmp_path):
    write(open_log(tmp_path / "service.log"), 100)
    files = sorted(file for file in tmp_path.iterdir() if not file.name.startswith("."))
    assert [file.name for file in files] == ["service.log", "service.log.1", "service.log.2"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert files[0].read_text().splitlines()[-1].startswith("line 0099")


def test_earlier_lines_are_kept(open_log, tmp_path):
    (tmp_path / "service.log").write_text("before\n")
    write(open_log(tmp_path / "service.log"), 1)
    assert (tmp_path / "service.log").read_text().startswith("before\nline 0000")


def test_each_process_has_its_own_file(open_log, tmp_path):
    """The name of an ended process is used again."""
    first, second = (open_log(tmp_path / "service.log") for _ in range(2))
    third = open_log(tmp_path / "service.log")
    names = [handler.baseFilename.rpartition("/")[2] for handler in (first, second, third)]
    assert names == ["service.log", "service.2.log", "service.3.log"]
    second.close()
    assert open_log(tmp_path / "service.log").baseFilename == second.baseFilename


def test_rotation_keeps_the_lock(open_log, tmp_path):
    write(open_log(tmp_path / "service.log"), 100)
    assert open_log(tmp_path / "service.log").baseFilename.endswith("service.2.log")


@pytest.mark.parametrize(
    ("name", "worker"),
    [("bln-search.log", "bln-search.worker.log"), ("log", "log.worker"), ("a.b.log", "a.b.worker.log")],
)
def test_worker_has_its_own_file_name(tmp_path, name, worker):
    assert LogFileSettings(tmp_path / name, 1000, 1).with_role_in_file_name("worker").path == tmp_path / worker


def test_folder_is_created(open_log, tmp_path):
    write(open_log(tmp_path / "new" / "folder" / "service.log"), 1)
    assert (tmp_path / "new" / "folder" / "service.log").stat().st_size


@pytest.mark.parametrize(
    ("name", "reason"), [("a_folder", "Is a directory"), ("a_file/service.log", "File exists"), ("a" * 300, "too long")]
)
def test_impossible_path_raises_output_error(open_log, tmp_path, name, reason):
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").write_text("")
    with pytest.raises(OutputFileError, match=rf"the log file .* cannot be written \(.*{reason}.*BLN_SEARCH_LOG_FILE"):
        open_log(tmp_path / name)


def test_missing_file_name_raises_output_error(open_log):
    with pytest.raises(OutputFileError, match=r"'\.'"):
        open_log(Path())


@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_standard_error_and_file_have_the_same_lines(tmp_path, capsys, log_format):
    configure_logging(log_format, file=LogFileSettings(tmp_path / "service.log", 10_000, 1))
    logging.getLogger("service").info("a line", extra={"study_id": 3})
    content = (tmp_path / "service.log").read_text()
    assert content == capsys.readouterr().err
    first, second = content.splitlines()
    assert f"this log is also in {tmp_path / 'service.log'}" in first
    if log_format == "json":
        assert json.loads(second)["study_id"] == 3
    else:
        assert second.endswith("INFO a line study_id=3")


def test_no_file_is_written_by_default(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    configure_logging("plain")
    logging.getLogger("service").info("a line")
    assert capsys.readouterr().err.endswith("INFO a line\n")
    assert not list(tmp_path.iterdir())
