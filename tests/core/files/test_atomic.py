"""Files are written atomically."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from bln_search.core.errors import StorageFullError
from bln_search.core.files.atomic import write_atomically


def test_full_disk_leaves_only_the_old_file(tmp_path):
    """A file size limit of the process stands in for a full disk: the kernel refuses the write in the same place."""
    path = tmp_path / "a.bin"
    write_atomically(path, b"old")
    code = f"""
        import resource, signal
        from pathlib import Path
        from bln_search.core.errors import StorageFullError
        from bln_search.core.files.atomic import write_atomically
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_atomically(Path({str(path)!r}), bytes(5000))
        except StorageFullError as error:
            print("refused")
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=120
    )
    assert process.stdout.strip() == "refused"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_error_says_what_to_do(tmp_path, monkeypatch):
    """/dev/full refuses every write with the error of a full disk."""
    monkeypatch.setattr(
        "tempfile.mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(tmp_path / "unfinished"))
    )
    with pytest.raises(StorageFullError, match=r"a.bin"):
        write_atomically(tmp_path / "a.bin", b"x" * 100_000)
    assert not (tmp_path / "a.bin").exists()
