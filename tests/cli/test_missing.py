"""A part that was not installed is one clear error."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules[{package!r}] = None
from bln_search.cli.main import main
sys.argv = ["bln-search", *{words!r}]
main()
"""


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("uvicorn", ["serve", "--no-worker"], "web"),
        ("httpx", ["list", "--server", "http://127.0.0.1:9"], "client"),
        ("pyarrow", ["leaderboard", "none", "--format", "parquet"], "train"),
        ("jinja2", ["report", "none", "--to", "none.html"], "web"),
        ("plotly", ["report", "none", "--to", "none.html"], "web"),
    ],
)
def test_it_says_what_to_install(package, words, extra):
    program = PROGRAM.format(package=package, words=words)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {package} is not installed, which this needs: pip install 'bln-search[{extra}]'"
    ]
