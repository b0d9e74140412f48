"""REST by example, carried out against a service with a worker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import OPENAPI_PATHS, PAGES, blocks, run_python, written
from tests.end_to_end.service import Service

PAGE = PAGES["rest.md"]
ADDRESS = "http://127.0.0.1:8000"
pytestmark = pytest.mark.xdist_group("rest by example")  # one service, whose first study is that of curl


def with_own_commands() -> str:
    """Return a search path that begins with the commands of this environment, activated or not."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("rest") / "home").start().ready()
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_with_curl(service, tmp_path):
    script = "\n".join(block.text for block in blocks(PAGE, "bash") if "bln-search serve" not in block.text)
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(ADDRESS, service.address)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "BLN_SEARCH_HOME": str(service.home), "PATH": with_own_commands()},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert '"trials":2' in process.stdout
    assert "event: end" in process.stdout
    assert '"state":"complete"' in process.stdout
    assert '"notes":"two epochs, to see the API"' in process.stdout
    assert '"pointer":"/arms/0/method"' in process.stdout


@pytest.mark.slow
def test_with_the_client(service, tmp_path):
    code = "\n".join(block.text for block in blocks(PAGE, "python")).replace(ADDRESS, service.address)
    printed = run_python(code, where=tmp_path, BLN_SEARCH_HOME=str(service.home))
    assert "4 networks, 40 evaluations on each split" in printed
    assert "study_complete\n" in printed
    assert "\n1 " in printed
    assert "404 there is no study 'no_such_study'" in printed


def test_every_path_is_in_the_table():
    rows = [line.split("|") for line in written(PAGE).splitlines() if line.startswith("| `/")]
    told = {row[1].strip(" `"): set(row[2].replace(",", " ").lower().split()) for row in rows}
    assert told == {path: set(methods) for path, methods in OPENAPI_PATHS.items()}
