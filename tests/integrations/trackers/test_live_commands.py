"""The commands `run` and `worker` write to a tracker while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("tensorboard")
pytest.importorskip("mlflow.server")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bench.support.mlflow_server import MlflowServer
from bench.support.processes import PROGRAM, environment_of, open_ledger
from bench.support.tracked_studies import read_mlflow_runs
from bln_search.core.states import StudyState
from bln_search.specs import parse_study
from tests.support.forwarder import find_free_port, forwarding

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EPOCHS = 40
STUDY = f"""
name: live
data: {{name: digits, validation: 300}}
model: {{name: mlp, widths: [8]}}
arms: [{{method: bln}}]
training: {{epochs: {EPOCHS}, learning_rate: 0.01}}
seeds: [0, 1, 2, 3]
"""


def start(home, tracker, *words):
    environment = environment_of(home, BLN_SEARCH_TRACKER=tracker, OMP_NUM_THREADS="1")
    with (home / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def read_steps(folder):
    files = [file for file in folder.rglob("events.*") if file.parent.name != "ranked"]
    return [
        [event.step for event in run.Scalars("validation_loss")] if "validation_loss" in run.Tags()["scalars"] else []
        for run in (EventAccumulator(str(file.parent)).Reload() for file in files)
    ]


def wait_until(happens, process):
    end = time.monotonic() + 240
    while not happens():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_run_that_is_killed_and_started_again_has_every_epoch_once(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    words = ("run", str(tmp_path / "study.yaml"), "--workers", "1", "--quiet")
    runs = tmp_path / "runs"
    process = start(tmp_path, f"tensorboard:{runs}", *words)
    wait_until(lambda: any(read_steps(runs)), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert sum(map(len, read_steps(runs))) < 4 * EPOCHS
    assert start(tmp_path, f"tensorboard:{runs}", *words).wait(300) == 0
    assert read_steps(runs) == [[*range(1, EPOCHS + 1)]] * 4
    assert len(list(runs.rglob("ranked/events.*"))) == 1


def test_a_worker_fills_a_server_that_was_down_meanwhile(tmp_path):
    home, port, epochs = tmp_path / "home", find_free_port(), 300
    home.mkdir()
    text = (
        STUDY.replace(f"epochs: {EPOCHS}", f"epochs: {epochs}").replace("[0, 1, 2, 3]", "[0]").replace("[8]", "[256]")
    )
    with open_ledger(home) as ledger, MlflowServer(tmp_path / "mlflow") as server:
        ledger.tokens.create_token("ada", "write")
        study_id = ledger.queue.submit_study(parse_study(text), "ada").study_id
        process = start(home, f"mlflow:http://ada:s3cret@127.0.0.1:{port}", "worker", "--once", "--workers", "1")
        wait_until(lambda: "the study runs on" in (home / "output").read_text(), process)
        with forwarding(port, to=server.port):
            assert process.wait(300) == 0
        study = ledger.studies.get(study_id)
        (trial,) = ledger.trials.list_trials(study_id)
        runs = read_mlflow_runs(server.database_file)
    assert study.state is StudyState.COMPLETE
    assert runs == {trial.key[:8]: [[*range(1, epochs + 1)]]}
    said = (home / "output").read_text()
    assert said.count("does not answer") == 1
    assert "works again" in said
    assert "registered as live version 1" in said
    assert "s3cret" not in said
