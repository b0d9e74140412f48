"""The server of processes for trials starts without torch in the driver, and loads it for all processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bln_search.execution.executors.process_server import HAS_SERVER

PROGRAM = """
import json, sys
from bln_search.execution.executors.process_server import CONTEXT, start_process_server

def send_loaded_modules(connection):
    connection.send([name for name in ("torch", "torch._dynamo", "bln_search.execution.trial") if name in sys.modules])

if __name__ == "__main__":
    start_process_server()
    loaded = ["torch" in sys.modules]
    driver_end, worker_end = CONTEXT.Pipe()
    CONTEXT.Process(target=send_loaded_modules, args=(worker_end,)).start()
    print(json.dumps([*loaded, driver_end.recv()]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_SERVER, reason="processes are not started by a forkserver here")
def test_processes_have_torch_and_its_compiler_and_the_driver_has_not(tmp_path):
    (tmp_path / "driver.py").write_text(PROGRAM)
    result = subprocess.run([sys.executable, tmp_path / "driver.py"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [False, ["torch", "torch._dynamo", "bln_search.execution.trial"]]
