"""A real MLflow server, which is ended and started again half-way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("mlflow.server")

from bench.support.mlflow_server import MlflowServer
from bench.support.tracked_studies import read_mlflow_runs
from bln_search.api.export.loading import load
from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import TrackerError
from bln_search.core.states import StudyState, TrialState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.integrations.trackers.study_records import make_tracked_study
from bln_search.integrations.trackers.synchronization import StudySynchronizer, SynchronizedRuns
from bln_search.integrations.trackers.target import parse_tracker_target
from bln_search.integrations.trackers.tracker import open_tracker
from bln_search.worker.analysis import compute_and_store_analysis
from bln_search.worker.tracking.recommended_network import register_recommended_network
from tests.integrations.trackers.conftest import HOSTILE, STUDY
from tests.support.finished_study import finished_study
from tests.worker.small_study import small_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("mlflow"),
    pytest.mark.filterwarnings("ignore"),  # of MLflow and of what it imports
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with MlflowServer(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture
def client(server):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=server.uri)


@pytest.fixture
def open_mlflow(server):
    """A function that opens the tracker as a new process does."""
    return lambda: open_tracker(parse_tracker_target(f"mlflow:{server.uri}"))


@pytest.fixture
def use_server():
    """A function that makes a server that of the process, until the test ends: loggers of trainers leave one behind."""
    import mlflow

    earlier = mlflow.get_tracking_uri()
    yield lambda server: mlflow.set_tracking_uri(server.uri)
    mlflow.set_tracking_uri(earlier)


def list_runs(client, study):
    (experiment,) = client.search_experiments(filter_string=f"tags.`bln_search.study` = '{study.key}'")
    runs = {run.data.tags["bln_search.trial"]: run for run in client.search_runs([experiment.experiment_id])}
    return runs.pop("study"), runs


def read_epochs(client, run):
    return [metric.step for metric in client.get_metric_history(run.info.run_id, "training_loss")]


def test_nothing_is_lost_or_doubled_when_the_server_ends_half_way(open_mlflow, server, client, ledger, study_id):
    synchronizer = StudySynchronizer(ledger, study_id, open_mlflow())

    def kill_half_way(done):
        if done.written == 5:
            server.kill()

    with pytest.raises(TrackerError, match=rf"mlflow:{server.uri} does not answer: start the server"):
        synchronizer.synchronize_trials(kill_half_way)
    with pytest.raises(TrackerError):
        synchronizer.synchronize_trials()
    server.start()
    done = synchronizer.synchronize_trials()
    assert done == SynchronizedRuns(10, 5)
    assert synchronizer.synchronize_summary(None)
    again = StudySynchronizer(ledger, study_id, open_mlflow())
    assert (again.synchronize_trials(), again.synchronize_summary(None)) == (SynchronizedRuns(10, 0), False)
    study = make_tracked_study(ledger.studies.get(study_id))
    parent, runs = list_runs(client, study)
    trials = {trial.key: trial for trial in ledger.trials.list_trials(study_id)}
    assert {*runs} == {*trials}
    for run in runs.values():
        assert (run.info.status, read_epochs(client, run)) == ("FINISHED", [1, 2, 3])
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.params["arm.method"] == "bln"
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["bln_search.digest"] == ledger.studies.get(study_id).spec.digest
    assert read_mlflow_runs(server.database_file) == {key[:8]: [[1, 2, 3]] for key in trials}
    artifacts = client.list_artifacts(parent.info.run_id)
    assert {artifact.path for artifact in artifacts} == {"ranked.csv", "ranked.md", "study.json"}


@pytest.mark.parametrize("step", ["create_run", "log_batch", "set_terminated"])
@pytest.mark.parametrize("is_lost", [True, False], ids=["response", "request"])
def test_a_lost_request_or_response_makes_no_double(open_mlflow, client, make_trial, monkeypatch, step, is_lost):
    study = replace(STUDY, key=f"{step}-{is_lost}".ljust(32, "x"), name=f"{step}-{is_lost}".lower())
    tracker = open_mlflow()
    tracker.open_study(study)
    send = getattr(tracker._client, step)

    def fail(*arguments, **options):
        if is_lost:
            send(*arguments, **options)
        raise ConnectionError("gone")

    with monkeypatch.context() as patch, pytest.raises(TrackerError, match="gone"):
        patch.setattr(tracker._client, step, fail)
        tracker.write_trial(make_trial())
    tracker = open_mlflow()
    tracker.open_study(study)
    was_complete = step == "set_terminated" and is_lost
    assert tracker.write_trial(make_trial()) is not was_complete
    _, runs = list_runs(client, study)
    (run,) = runs.values()
    assert (run.info.status, read_epochs(client, run)) == ("FINISHED", [1])


def test_a_running_trial_grows_and_a_failed_one_resumes(open_mlflow, client, make_trial):
    study = replace(STUDY, key="g" * 32, name="growing")
    states = [(0, "RUNNING"), (3, "RUNNING"), (3, "FAILED"), (4, "FAILED"), (5, "RUNNING"), (1200, "FINISHED")]
    for epochs, state in states:
        tracker = open_mlflow()
        tracker.open_study(study)
        assert tracker.write_trial(make_trial(epochs, TrialState(state.lower())))
        _, runs = list_runs(client, study)
        (run,) = runs.values()
        assert len(read_epochs(client, run)) == max(epochs - 1, 0)  # the second one is not finite
    assert run.info.status == "FINISHED"
    assert run.data.tags["bln_search.state"] == "finished"


def test_tags_of_an_earlier_end_are_removed(open_mlflow, client, make_trial, make_summary):
    study = replace(STUDY, key="e" * 32, name="earlier")
    trial, summary = make_trial(1, TrialState.FAILED), make_summary("old")
    for is_changed in (False, True):
        tracker = open_mlflow()
        tracker.open_study(study)
        if is_changed:
            trial = replace(trial, state=TrialState.FINISHED, reason="")
            summary = replace(summary, verdict={"facts": "new"})
        assert tracker.write_trial(trial)
        assert tracker.write_summary(summary)
    parent, runs = list_runs(client, study)
    assert "bln_search.reason" not in runs[trial.key].data.tags
    assert "bln_search.verdict" not in parent.data.tags
    assert parent.data.tags["bln_search.facts"] == "new"


def test_hostile_names_and_values_are_stored_within_the_limits(open_mlflow, client, make_trial, make_summary):
    study = replace(STUDY, key="h" * 32, name="hostile", title=HOSTILE)
    tracker = open_mlflow()
    tracker.open_study(study)
    many = {f"{number}:{HOSTILE}": HOSTILE for number in range(250)}
    trial = make_trial()
    tracker.write_trial(replace(trial, parameters={**trial.parameters, **many}))
    assert tracker.write_summary(make_summary())
    parent, runs = list_runs(client, study)
    (run,) = runs.values()
    assert len(run.data.params) == len(trial.parameters) + 250
    assert run.data.params["rate"] == "0.1"
    assert "💥" in run.data.tags["bln_search.reason"]
    assert parent.info.run_name.startswith("../../etc/pa")


def test_one_of_two_equal_runs_is_kept(open_mlflow, client, make_trial):
    study = replace(STUDY, key="t" * 32, name="twice")
    first, second = open_mlflow(), open_mlflow()
    for tracker in (first, second):
        tracker.open_study(study)
    first.write_trial(make_trial(3, TrialState.RUNNING))
    second.write_trial(make_trial(4))  # both looked before either wrote
    first = open_mlflow()
    first.open_study(study)
    assert not first.write_trial(make_trial(4))
    _, runs = list_runs(client, study)
    (run,) = runs.values()
    assert (run.info.status, read_epochs(client, run)) == ("FINISHED", [1, 3, 4])


def test_a_study_that_is_interrupted_stays_running_until_it_is_complete(open_mlflow, client, make_summary):
    study = replace(STUDY, key="i" * 32, name="interrupted")
    for state, status in (
        (StudyState.INTERRUPTED, "RUNNING"),
        (StudyState.FAILED, "FAILED"),
        (StudyState.COMPLETE, "FINISHED"),
    ):
        tracker = open_mlflow()
        tracker.open_study(study)
        assert tracker.write_summary(replace(make_summary(), state=state))
        assert list_runs(client, study)[0].info.status == status


def test_a_deleted_experiment_is_one_sentence(open_mlflow, client):
    study = replace(STUDY, key="r" * 32, name="removed")
    open_mlflow().open_study(study)
    (experiment,) = client.search_experiments(filter_string=f"tags.`bln_search.study` = '{study.key}'")
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(TrackerError, match="the experiment removed-rrrrrrrr was deleted; restore it"):
        open_mlflow().open_study(study)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://ada:s3cret@127.0.0.1:9", " does not answer: start the server, or correct the URI"),
        ("nonsense://ada:s3cret@host", " cannot be used: "),
        ("postgresql://ada:s3cret@127.0.0.1:9/runs", " cannot be used: "),
    ],
)
def test_a_server_that_cannot_be_used_is_one_sentence_without_the_password(uri, reason, monkeypatch):
    monkeypatch.setattr("mlflow.store.db.utils.MAX_RETRY_COUNT", 1)
    with pytest.raises(TrackerError) as caught:
        open_tracker(parse_tracker_target(f"mlflow:{uri}")).open_study(STUDY)
    text = str(caught.value)
    assert text.startswith(f"mlflow:{uri.replace('s3cret', '***')}{reason}")
    assert "s3cret" not in text
    assert "\n" not in text


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A study that was trained and analyzed: its ledger, its record, its analysis and its environment."""
    folder = tmp_path_factory.mktemp("trained")
    with finished_study(small_study().model_dump_json(), folder) as (ledger, study):
        analysis = compute_and_store_analysis(ledger, study.id, None)
        yield ledger, study, analysis, ExecutionEnvironment(folder, folder, FolderStore(folder / "checkpoints"))


def test_the_registered_network_computes_what_the_exported_one_computes(
    open_mlflow, use_server, server, client, trained, monkeypatch
):
    import mlflow

    ledger, study, analysis, environment = trained
    tracker = open_mlflow()
    assert StudySynchronizer(ledger, study.id, tracker).synchronize_summary(analysis)
    register, expected, inputs = tracker.register_network, [], torch.rand(5, 1, 8, 8) * 16

    def register_and_compute(network):
        with torch.no_grad():
            expected.append(load(network.folder)(inputs))
        return register(network)

    monkeypatch.setattr(tracker, "register_network", register_and_compute)
    sentences = [register_recommended_network(ledger, study, analysis, tracker, environment) for _ in range(2)]
    assert sentences == [
        "the recommended network is registered as small version 1",
        "the recommended network is small version 1 already",
    ]
    parent, _ = list_runs(client, make_tracked_study(study))
    assert parent.data.tags["bln_search.configuration"] == analysis.recommendation.configuration
    assert parent.data.tags["bln_search.verdict"] == analysis.recommendation.verdict
    use_server(server)
    info = mlflow.models.get_model_info("models:/small/1")
    assert "pytorch" in info.flavors
    assert info.signature.inputs.inputs[0].shape == (-1, 1, 8, 8)
    assert info.signature.outputs.inputs[0].shape == (-1, 10)
    model = mlflow.pytorch.load_model("models:/small/1")
    with torch.no_grad():
        torch.testing.assert_close(model(inputs), expected[0])
