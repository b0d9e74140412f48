"""The server of processes for trials starts without torch in the driver, and loads it for all processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bln_search.execution.executors.process_server import HAS_SERVER

PROGRAM = """
import gc, json, sys
from bln_search.execution.executors.process_server import CONTEXT, start_process_server

def send_loaded_modules(connection):
    loaded = [name for name in ("torch", "torch._dynamo", "sklearn.model_selection") if name in sys.modules]
    connection.send([loaded, gc.isenabled(), gc.get_freeze_count() > 100_000])

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
    in_driver, (in_process, collects_garbage, modules_are_frozen) = json.loads(result.stdout)
    assert not in_driver
    assert in_process == ["torch", "torch._dynamo", "sklearn.model_selection"]
    assert collects_garbage
    assert modules_are_frozen
