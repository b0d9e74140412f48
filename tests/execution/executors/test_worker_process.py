"""The process that runs trials ends with its driver, without an error."""

from __future__ import annotations

from multiprocessing import Pipe

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors import worker_process
from bln_search.execution.messages import TrialTask
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """
name: x
data: {name: mnist}
model: {name: mlp}
arms: [{method: bn}]
seeds: [0]
"""


@pytest.mark.parametrize("run", [worker_process.run_worker, worker_process.run_group_worker])
def test_a_message_to_a_driver_that_has_ended_is_no_error(tmp_path, monkeypatch, run):
    """The trial finds no data set, which cannot be sent either."""
    monkeypatch.setattr(worker_process, "exit_when_parent_ends", lambda: None)
    monkeypatch.setattr(worker_process.signal, "signal", lambda *_: None)
    driver, worker = Pipe()
    (trial,) = list_planned_trial_specs(parse_study(STUDY))
    driver.send(TrialTask(1, trial))
    driver.close()
    run(worker, ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path)))
