"""A study over several Ray nodes: nodes end and join, the cluster ends; no evaluation is lost or duplicated."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest
from sqlalchemy import select

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.core.errors import ClusterError
from bln_search.core.states import AttemptState, FailureClass, StudyState, TrialState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.executors.ray.executor import RayExecutor
from bln_search.execution.messages import EvaluationDone
from bln_search.specs import parse_study
from bln_search.storage.engine import read_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.tables import AttemptRow, CheckpointRow, EvaluationRow, TrialRow
from bln_search.worker import run_study
from tests.conftest import ROOT
from tests.support.watchers import RecordingWatcher
from tests.worker.nodes import Nodes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("default"),  # Ray's own are not ours to mend
]
TRIALS = 32
LONGEST_SEQUENCE = 6
"""Of the trials that wait, a sixth are in one process of three."""
FEW = 24
STUDY = """
name: nodes
data: {name: digits, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 2, batch_size: 5}
seeds: [SEEDS]
"""


def study(trials=TRIALS):
    return parse_study(STUDY.replace("SEEDS", ", ".join(str(seed) for seed in range(trials))))


def figures(opened, study_id):
    """Every evaluation with its figures to the last bit."""
    return [
        (record.seed, record.evaluation.key, record.evaluation.state, record.evaluation.n, record.evaluation.loss.hex())
        for record in opened.results.list_clean_evaluations(study_id)
    ]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The figures of the study through the local executor; the first trials are those of a study of fewer seeds."""
    folder = tmp_path_factory.mktemp("local")
    opened = open_and_upgrade_ledger(f"sqlite:///{folder / 'ledger.sqlite3'}")
    study_id = opened.studies.store_study_once(study())
    environment = ExecutionEnvironment(folder / "data", folder / "cache", FolderStore(folder / "checkpoints"))
    assert run_study(opened, study_id, LocalExecutor(environment, 2), RecordingWatcher()) is StudyState.COMPLETE
    evaluations = figures(opened, study_id)
    opened.close()
    return evaluations


def check_cells(opened, trials=TRIALS):
    """Every cell is there once: trials, the attempt that finished each, evaluations under their UNIQUE key."""
    with read_session(opened.database.engine) as session:
        keys = list(session.scalars(select(TrialRow.key)))
        finished = select(AttemptRow.trial_id).where(AttemptRow.state == AttemptState.SUCCEEDED)
        succeeded = Counter(session.scalars(finished))
        columns = [EvaluationRow.configuration, EvaluationRow.estimate, EvaluationRow.batch_size, EvaluationRow.split]
        cells = session.execute(select(CheckpointRow.trial_id, *columns).join(CheckpointRow)).all()
        running = session.scalars(select(AttemptRow.id).where(AttemptRow.state == AttemptState.RUNNING)).all()
    assert len(keys) == len(set(keys)) == trials
    assert sorted(succeeded.values()) == [1] * trials
    assert len(cells) == len(set(cells)) == trials * 2 * 16
    assert running == []


class Log(logging.Handler):
    """Which process carried each trial out, as the executor says."""

    def __init__(self):
        super().__init__()
        self.pids = []

    def emit(self, record):
        if hasattr(record, "trial"):
            self.pids.append(record.args[1])


@pytest.fixture
def log():
    """The executor's log."""
    logger, handler = logging.getLogger("bln_search.execution.executors.ray.executor"), Log()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


class Act(RecordingWatcher):
    """Notes which node carried each trial out; calls `act` when so many have ended, until it says that it is done."""

    def __init__(self, nodes, log, after, act):
        super().__init__(self._see)
        self.nodes, self.log, self.after, self.act = nodes, log, after, act
        self.carried = []
        self.acted_at = None

    def _see(self, message):
        if isinstance(message, EvaluationDone):
            self.carried.append(self.nodes.number_of(self.log.pids[-1]))
            if self.acted_at is None and len(self.carried) >= self.after and self.act():
                self.acted_at = len(self.carried)


def test_killed_node_ends_only_attempts_of_its_process(
    ledger,
    environment,
    tmp_path,
    expected,
    log,
):
    killed = []

    def kill():
        for node in nodes.nodes:
            if not killed and node.is_busy():
                node.kill()
                killed.append(node)
        return killed

    study_id = ledger.studies.store_study_once(study())
    with Nodes(tmp_path, 3) as nodes, RayExecutor(environment, address=nodes.address) as executor:
        watcher = Act(nodes, log, 8, kill)
        assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    assert 8 <= watcher.acted_at < TRIALS - 8
    assert figures(ledger, study_id) == expected
    check_cells(ledger)
    with read_session(ledger.database.engine) as session:
        failed = session.scalars(select(AttemptRow).where(AttemptRow.state == AttemptState.FAILED)).all()
        assert {one.failure for one in failed} == {FailureClass.INFRASTRUCTURE}
        assert all("the worker process ended" in one.reason for one in failed)
        assert len({one.trial_id for one in failed}) == len(failed) <= LONGEST_SEQUENCE
    assert set(watcher.carried) == {0, 1, 2}
    gone = nodes.nodes.index(killed[0])
    assert set(watcher.carried[-8:]) == {0, 1, 2} - {gone}


def test_joined_node_runs_trials_after_the_first_has_left(
    ledger,
    environment,
    tmp_path,
    expected,
    log,
):
    study_id = ledger.studies.store_study_once(study())
    with Nodes(tmp_path, 1) as nodes, RayExecutor(environment, address=nodes.address) as executor:

        def change():
            """A second node, and once it has carried a trial out no first one any more."""
            if len(nodes.nodes) == 1:
                nodes.join()  # meanwhile no further trial begins
            if not nodes.nodes[1].pids:
                return False
            nodes.nodes[0].kill()
            return True

        watcher = Act(nodes, log, 2, change)
        assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    assert watcher.acted_at < TRIALS
    assert figures(ledger, study_id) == expected
    check_cells(ledger)
    assert set(watcher.carried) == {0, 1}


def test_cluster_without_cores_is_rejected(environment, tmp_path):
    with (
        Nodes(tmp_path, 0) as nodes,
        pytest.raises(ClusterError, match="no node of the Ray cluster has cores for trials yet"),
        RayExecutor(environment, address=nodes.address),
    ):
        pass


def start_worker(address, database, home, *, once=False):
    """`bln-search worker` on the cluster, a process of its own."""
    program = "import sys; from bln_search.cli.main import main; main()"
    words = ["worker", "--executor", "ray", "--ray-address", address, "--database", database]
    with (home / "worker.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", program, *words, *(["--once"] if once else [])],
            env={**os.environ, "BLN_SEARCH_HOME": str(home), "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=output,
        )


def wait_for(condition, process, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.2)


def check_end(code, told, left):
    """The study was given back; or Ray, in the middle of a call to the head, ended the process after twenty seconds."""
    assert code != 0
    assert "Traceback" not in told
    if "Failed to connect to GCS within 20 seconds" in told:
        assert left.state is StudyState.RUNNING  # of a process that is gone: whoever is next takes it
        return
    assert code == 1
    assert "the Ray cluster" in told
    assert "gone" in told
    assert left.state is StudyState.ACCEPTED
    assert left.trials.keys() - {TrialState.TRAINED} == {TrialState.FINISHED, TrialState.WAITING}


def test_killed_head_ends_the_worker_and_another_completes(tmp_path, expected):
    url = f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    with closing(open_and_upgrade_ledger(url)) as opened:
        opened.tokens.create_token("ada", Scope.WRITE)
        study_id = opened.queue.submit_study(study(FEW), "ada").study_id
        with Nodes(tmp_path, 1) as nodes:
            worker = start_worker(nodes.address, url, tmp_path)
            wait_for(lambda: opened.studies.get(study_id).trials.get(TrialState.FINISHED, 0) >= 3, worker)
            nodes.head.kill()
            check_end(worker.wait(timeout=240), (tmp_path / "worker.log").read_text(), opened.studies.get(study_id))
        with Nodes(tmp_path, 2) as nodes:
            assert start_worker(nodes.address, url, tmp_path, once=True).wait(timeout=600) == 0
        assert opened.studies.get(study_id).state is StudyState.COMPLETE
        assert figures(opened, study_id) == expected[: FEW * 2 * 16]
        check_cells(opened, FEW)
