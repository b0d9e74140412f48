"""Per-layer searches of a study's networks: searched, stopped, resumed, combined and reported."""

from __future__ import annotations

import sqlite3
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing

import numpy as np
import pytest

from bln_search.core.checkpoints import Folder
from bln_search.core.enums import LayerScope, LayerSearch, PopulationEstimate, Scope
from bln_search.core.errors import DataError, ModelError, UnknownStudyError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.search.layers import trial_search as layers_of_network
from bln_search.specs import parse_study
from bln_search.specs.layer_search import LayersSpec
from bln_search.storage.ledger import open_ledger
from bln_search.worker import layer_search as worker_layers
from bln_search.worker.analysis import AnalysisOptions, LayerSearchOutcome, compute_analysis
from bln_search.worker.analysis import study_analysis as worker_analysis
from bln_search.worker.layer_search import SearchStoppedError, search_layers
from bln_search.worker.loop import Worker
from bln_search.worker.presence import Presence
from tests.storage.searches import assert_same

STUDY = """
name: layered
data: {name: digits, fraction: 0.4, validation: 325}
model: {name: mlp, widths: [16, 12]}
arms: [{method: bln}, {method: ln}]
seeds: [0, 1]
training: {epochs: 3}
layers: {folds: 2, keep: 40}
"""


BATCHES = [1, 2, 3, 4, 5, 6]
"""How many mini-batches are in behind each step of an enumeration."""


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """However slow the machine is: what a test changes holds in no other process."""
    monkeypatch.setattr(worker_layers, "_MIN_PARALLEL_SECONDS", float("inf"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def environment(home):
    return ExecutionEnvironment(home / "data", home / "cache", Folder(home / "checkpoints"))


@pytest.fixture(scope="module")
def analysed(home, environment):
    """A service's worker and the study it carried out, layers and all."""
    ledger = open_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    ledger.tokens.create("ada", Scope.WRITE)
    worker = Worker(ledger, environment, LocalExecutor(environment, 1), cap=2)
    study_id = worker.ledger.queue.submit(parse_study(STUDY), "ada").study_id
    worker.work(once=True)
    yield worker, study_id
    ledger.close()


def copy_of(home, path):
    """A ledger of its own with the trained study in it; its checkpoints are where they were."""
    with closing(sqlite3.connect(home / "ledger.sqlite3")) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
    with_layers = open_ledger(f"sqlite:///{path}")
    forget(with_layers)
    return with_layers


@pytest.fixture
def ledger_copy(analysed, home, tmp_path):
    with closing(copy_of(home, tmp_path / "copied.sqlite3")) as ledger:
        yield ledger


@pytest.fixture(scope="module")
def uninterrupted(analysed, home, environment):
    """Return the progress lines and stored records of a search that saves its progress after every mini-batch."""
    progress_lines = []
    with closing(copy_of(home, home / "uninterrupted.sqlite3")) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_layers, "_MIN_PARALLEL_SECONDS", float("inf"))
        patch.setattr(worker_layers, "_SAVE_INTERVAL", 0.0)
        patch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
        search_layers(
            ledger, analysed[1], environment, ledger.studies.get(analysed[1]).spec.layers, progress_lines.append
        )
        return progress_lines, list_searches(ledger, analysed[1])


def forget(ledger):
    """Nothing is searched, nothing is analysed."""
    with ledger.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM layer_search")
        connection.exec_driver_sql("DELETE FROM analysis")


def silent(_line):
    pass


def list_searches(ledger, study_id):
    return list(ledger.layer_searches.iterate(study_id))


def test_worker_searches_layers_of_every_network(analysed):
    worker, study_id = analysed
    analysis = worker.ledger.analyses.find(study_id).analysis
    assert analysis.layers_reason is None
    assert analysis.comparison is not None
    assert [(layer_result.arm, layer_result.size, len(layer_result.networks)) for layer_result in analysis.layers] == [
        ("bln", "256", 2),
        ("ln", "16", 2),
    ]
    for layer_result in analysis.layers:
        assert [network.seed for network in layer_result.networks] == [0, 1]
        assert (layer_result.scope, layer_result.search, layer_result.folds) == (
            LayerScope.PER_LAYER,
            LayerSearch.EXACT,
            2,
        )
        assert (layer_result.estimate, layer_result.batch_size, layer_result.examples) == (
            PopulationEstimate.FROZEN,
            25,
            130,
        )
        assert (layer_result.marginal, layer_result.pending_seeds, layer_result.difference.networks) == (True, (), 2)
        assert len(layer_result.uniform) == (16 if layer_result.arm == "bln" else 4)
        assert len(layer_result.rows) == (100 if layer_result.arm == "bln" else 16)
        assert len(layer_result.effects) == 2 * (4 if layer_result.arm == "bln" else 2)
    assert worker.ledger.analyses.claim("host/9/0") is None


def test_uniform_losses_equal_those_of_the_leaderboard(analysed):
    """The tree evaluator and the one-pass evaluator compute the same losses."""
    worker, study_id = analysed
    analysis = worker.ledger.analyses.find(study_id).analysis
    for layer_result in analysis.layers:
        by_code = {}
        for trial in worker.ledger.trials.list_trained(study_id, arm=layer_result.arm):
            for evaluation in worker.ledger.results.list_trial_evaluations(trial.id):
                if evaluation.key.split == "validation":
                    by_code.setdefault(str(evaluation.key.configuration), []).append(evaluation)
        assert {row.configuration for row in layer_result.uniform} == set(by_code)
        for row in layer_result.uniform:
            evaluations = by_code[row.configuration]
            assert row.loss == pytest.approx(np.mean([item.loss for item in evaluations]), rel=1e-5)
            assert row.accuracy == pytest.approx(np.mean([item.accuracy for item in evaluations]))


def test_finished_networks_are_not_searched_again(analysed, environment):
    worker, study_id = analysed
    progress_lines = []
    layers_spec = worker.ledger.studies.get(study_id).spec.layers
    assert search_layers(worker.ledger, study_id, environment, layers_spec, progress_lines.append) == 0
    assert progress_lines == []


def test_later_search_reports_progress_and_equal_results(analysed, ledger_copy, environment):
    study_id = analysed[1]
    progress_lines = []
    layers_spec = ledger_copy.studies.get(study_id).spec.layers
    assert search_layers(ledger_copy, study_id, environment, layers_spec, progress_lines.append) == 4
    assert [line.split(":")[0] for line in progress_lines] == ["bln seed 0", "ln seed 0", "bln seed 1", "ln seed 1"]
    assert [line.split()[-1] for line in progress_lines] == ["(1/4)", "(2/4)", "(3/4)", "(4/4)"]
    for search, expected in zip(
        list_searches(ledger_copy, study_id), list_searches(analysed[0].ledger, study_id), strict=True
    ):
        assert (search.arm, search.seed, search.spec) == (expected.arm, expected.seed, expected.spec)
        assert_same(search.record, expected.record)


def test_sequential_search_can_be_stopped_between_networks(analysed, ledger_copy, environment):
    """TreeOptions to stop, it begins no other network; what is searched is kept."""
    study_id = analysed[1]
    layers_spec = LayersSpec(search=LayerSearch.COORDINATE, evaluations=50)
    progress_lines = []
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy,
            study_id,
            environment,
            layers_spec,
            progress_lines.append,
            should_stop=lambda: len(progress_lines) >= 3,
        )
    assert len(list_searches(ledger_copy, study_id)) == 3
    assert search_layers(ledger_copy, study_id, environment, layers_spec, progress_lines.append) == 1


@pytest.mark.parametrize(
    "groups_of_batches", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_stopped_enumeration_resumes(analysed, ledger_copy, environment, monkeypatch, uninterrupted, groups_of_batches):
    study_id = analysed[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)  # one mini-batch after the other
    layers_spec = ledger_copy.studies.get(study_id).spec.layers
    first = ledger_copy.trials.list_trained(study_id)[0]
    stop_answers = iter([False] * groups_of_batches)  # one before the network, then one behind each mini-batch
    progress_lines = []
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy,
            study_id,
            environment,
            layers_spec,
            progress_lines.append,
            should_stop=lambda: next(stop_answers, True),
        )
    assert progress_lines == [
        f"bln seed 0: {groups_of_batches} of 6 mini-batches, about {progress_lines[0].split()[-3]} s left"
    ]
    sums, completed = ledger_copy.layer_searches.find_progress(first.id, layers_spec)
    assert completed == groups_of_batches
    assert sums.examples.sum() == 25 * groups_of_batches
    assert not ledger_copy.layer_searches.is_finished(first.id, layers_spec)
    saved_steps = count_saved_steps(monkeypatch)
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy, study_id, environment, layers_spec, silent, should_stop=lambda: saved_steps[1:] == [BATCHES]
        )
    assert saved_steps == [BATCHES[groups_of_batches:], BATCHES]  # only the first one had begun
    (search,) = list_searches(ledger_copy, study_id)
    assert_same(search.record, uninterrupted[1][0].record)


def count_saved_steps(monkeypatch):
    """For each network the number of mini-batches after each saved step."""
    networks, saved_steps = [], []
    usual = worker_layers._ProgressStore.save

    def record_step(self, sums):
        if not networks or networks[-1] is not self:
            networks.append(self)
            saved_steps.append([])
        saved_steps[-1].append(sums.done)
        usual(self, sums)

    monkeypatch.setattr(worker_layers._ProgressStore, "save", record_step)
    return saved_steps


def test_progress_of_an_enumeration_is_saved(uninterrupted):
    progress_lines, _ = uninterrupted
    assert [line.split(",")[0] for line in progress_lines[:6]] == [
        f"bln seed 0: {completed} of 6 mini-batches" for completed in range(1, 7)
    ]
    assert len(progress_lines) == 4 * 7


def test_progress_of_another_search_is_not_resumed(analysed, ledger_copy, environment, monkeypatch):
    study_id = analysed[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    stop_answers = iter([False, False])
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy,
            study_id,
            environment,
            LayersSpec(folds=3),
            silent,
            should_stop=lambda: next(stop_answers, True),
        )
    saved_steps = count_saved_steps(monkeypatch)
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy,
            study_id,
            environment,
            LayersSpec(folds=2),
            silent,
            should_stop=lambda: saved_steps[-1:] == [BATCHES],
        )
    assert saved_steps == [BATCHES]


def held_until(ledger):
    with ledger.database.engine.begin() as connection:
        return connection.exec_driver_sql("SELECT runner_until FROM study").scalar_one()


def test_stopped_worker_leaves_the_analysis_to_another(analysed, ledger_copy, environment, monkeypatch):
    study_id = analysed[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    worker = Worker(ledger_copy, environment, LocalExecutor(environment, 1), cap=2)
    usual, meanwhile = worker_layers._ProgressStore.save, []

    def save_and_check(self, sums):
        meanwhile.append(ledger_copy.analyses.claim("host/9/0"))
        before = held_until(ledger_copy)
        Presence(worker.ledger, worker.name, "cpu", lambda: worker.study_id)._renew_lease()
        assert held_until(ledger_copy) > before
        worker.stopping.set()
        usual(self, sums)

    monkeypatch.setattr(worker_layers._ProgressStore, "save", save_and_check)
    assert worker._analyze_next()
    monkeypatch.undo()
    assert meanwhile == [None], "it is this worker's as long as it is at it"
    assert ledger_copy.analyses.find(study_id) is None
    first = ledger_copy.trials.list_trained(study_id)[0]
    assert ledger_copy.layer_searches.find_progress(first.id, ledger_copy.studies.get(study_id).spec.layers)[1] == 1
    Worker(ledger_copy, environment, LocalExecutor(environment, 1), cap=2).work(once=True)
    assert len(ledger_copy.analyses.find(study_id).analysis.layers) == 2


def test_damaged_outcomes_affect_only_their_study(analysed, ledger_copy, environment):
    study_id = analysed[1]
    with ledger_copy.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE outcomes SET losses = x'00'")
    analysis = compute_analysis(ledger_copy, study_id, environment)
    assert "are damaged" in analysis.reason
    assert ledger_copy.analyses.find(study_id).analysis.reason == analysis.reason


@pytest.mark.parametrize("moment", ["before", "while"])
def test_deleting_a_study_during_analysis_keeps_the_worker(analysed, ledger_copy, environment, monkeypatch, moment):
    study_id = analysed[1]
    usual = worker_analysis._analyze

    def delete_after(*arguments):
        result = usual(*arguments)
        ledger_copy.studies.delete(study_id)
        return result

    if moment == "before":
        ledger_copy.studies.delete(study_id)
    else:
        monkeypatch.setattr(worker_analysis, "_analyze", delete_after)
    Worker(ledger_copy, environment, LocalExecutor(environment, 1), cap=2)._analyze(study_id)
    with pytest.raises(UnknownStudyError, match=f"there is no study {study_id}"):
        ledger_copy.studies.get(study_id)


@pytest.mark.parametrize("error", [ModelError, DataError])
def test_networks_that_cannot_be_searched_are_reported(analysed, ledger_copy, environment, monkeypatch, error):
    study_id = analysed[1]
    usual = worker_layers.search_trial

    def fail_for_one_arm(trial, *arguments, **options):
        if trial.arm.label == "bln":
            raise error("it branches")
        return usual(trial, *arguments, **options)

    monkeypatch.setattr(worker_layers, "search_trial", fail_for_one_arm)
    progress_lines = []
    layers_spec = ledger_copy.studies.get(study_id).spec.layers
    with pytest.raises(error, match=r"the layers of 2 of 4 networks were not searched: bln seed 0: it branches"):
        search_layers(ledger_copy, study_id, environment, layers_spec, progress_lines.append)
    assert [progress_lines[0], progress_lines[2]] == ["bln seed 0: it branches", "bln seed 1: it branches"]
    analysis = compute_analysis(ledger_copy, study_id, environment)
    assert "2 of 4 networks were not searched: bln seed 0: it branches" in analysis.layers_reason
    assert [layer_result.arm for layer_result in analysis.layers] == ["ln"]
    assert analysis.comparison is not None
    assert ledger_copy.analyses.find(study_id).analysis == analysis
    without_search = compute_analysis(ledger_copy, study_id, None)
    assert without_search.layers_reason == analysis.layers_reason
    assert compute_analysis(ledger_copy, study_id, None, layer_search=LayerSearchOutcome()).layers_reason is None


def test_failed_search_keeps_the_rest_of_the_analysis(analysed, ledger_copy, environment, monkeypatch):
    def broken(*_, **__):
        raise BrokenProcessPool("a process was terminated")

    monkeypatch.setattr(worker_layers, "search_trial", broken)
    analysis = compute_analysis(ledger_copy, analysed[1], environment)
    assert analysis.layers_reason == "BrokenProcessPool: a process was terminated"
    assert analysis.comparison is not None
    assert analysis.recommendation is not None
    assert analysis.reason is None


def test_missing_checkpoint_affects_only_its_network(analysed, ledger_copy, environment):
    study_id = analysed[1]
    with ledger_copy.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE checkpoint SET file = 'gone.safetensors' WHERE id = 1")
    with pytest.raises(DataError, match=r"1 of 4 networks were not searched: bln seed 0: .*gone.safetensors"):
        search_layers(ledger_copy, study_id, environment, LayersSpec(), silent)
    assert [(search.arm, search.seed) for search in list_searches(ledger_copy, study_id)] == [
        ("ln", 0),
        ("bln", 1),
        ("ln", 1),
    ]
    analysis = compute_analysis(ledger_copy, study_id, None)
    assert [layer_result.pending_seeds for layer_result in analysis.layers] == [(0,), ()]


def test_too_many_folds_are_reported(analysed, ledger_copy, environment):
    with pytest.raises(DataError, match=r"4 of 4 networks were not searched: bln seed 0: 7 folds of 6 mini-batches"):
        search_layers(ledger_copy, analysed[1], environment, LayersSpec(folds=7), silent)


def test_study_without_trained_network_is_rejected(tmp_path, environment):
    ledger = open_ledger(f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    study_id = ledger.studies.accept(parse_study(STUDY))
    with pytest.raises(DataError, match="no trained network yet: run it first"):
        search_layers(ledger, study_id, environment, LayersSpec(), silent)
    assert compute_analysis(ledger, study_id, environment).layers_reason is None  # nothing is wrong with it
    ledger.close()


def test_tied_layers_and_other_searches_have_own_results(analysed, ledger_copy, environment):
    study_id = analysed[1]
    tied = LayersSpec(scope=LayerScope.GROUPS, groups={"all": ("*",)})
    search_layers(ledger_copy, study_id, environment, tied, silent)
    bln, ln = compute_analysis(ledger_copy, study_id, None, save=False).layers
    assert (bln.scope, bln.size, ln.size) == (LayerScope.GROUPS, "16", "4")
    assert [(choice.name, len(choice.layers), len(choice.options)) for choice in bln.choices] == [("all", 2, 16)]
    assert bln.difference.mean == 0
    assert not bln.difference.is_better
    search_layers(ledger_copy, study_id, environment, LayersSpec(search=LayerSearch.COORDINATE, evaluations=60), silent)
    bln, ln = compute_analysis(ledger_copy, study_id, None, save=False).layers
    assert (bln.search, bln.size, bln.marginal) == (LayerSearch.COORDINATE, "256", False)
    assert all(network.evaluations <= 3 * 60 for network in bln.networks)
    assert 16 <= len(bln.rows) <= 100


def test_unmatched_pattern_is_the_reason_without_result(analysed, ledger_copy, environment):
    study_id = analysed[1]
    with pytest.raises(ModelError, match=r"the pattern 'encoder\.\*' of the group 'a'"):
        search_layers(
            ledger_copy,
            study_id,
            environment,
            LayersSpec(scope=LayerScope.GROUPS, groups={"a": ("encoder.*",)}),
            silent,
        )
    assert list_searches(ledger_copy, study_id) == []


def test_running_search_shows_finished_networks(analysed, ledger_copy, environment):
    """Another question half answered: those answered last count, the others are still to be searched."""
    study_id = analysed[1]
    search_layers(ledger_copy, study_id, environment, LayersSpec(), silent)
    progress_lines = []
    random_search = LayersSpec(search=LayerSearch.RANDOM, evaluations=40)
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy,
            study_id,
            environment,
            random_search,
            progress_lines.append,
            should_stop=lambda: len(progress_lines) >= 1,
        )
    bln, ln = compute_analysis(ledger_copy, study_id, None, save=False).layers
    assert (bln.search, [network.seed for network in bln.networks], bln.pending_seeds) == (
        LayerSearch.RANDOM,
        [0],
        (1,),
    )
    assert (ln.search, ln.pending_seeds) == (LayerSearch.EXACT, ())


def test_layers_are_not_searched_without_a_request(analysed, ledger_copy, environment):
    study_id = analysed[1]
    plain = parse_study(STUDY.replace("layers: {folds: 2, keep: 40}", ""))
    with ledger_copy.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE study SET spec = ?", (plain.canonical_json(),))
    analysis = compute_analysis(ledger_copy, study_id, environment)
    assert (analysis.layers, analysis.layers_reason) == ((), None)
    assert list_searches(ledger_copy, study_id) == []


def test_analysis_reports_the_progress_of_its_search(analysed, ledger_copy, environment):
    progress_lines = []
    compute_analysis(ledger_copy, analysed[1], environment, AnalysisOptions(progress_lines.append), save=False)
    assert len(progress_lines) == 4


@pytest.mark.parametrize("slice_seconds", [0.0, 60.0])
def test_parallel_search_equals_sequential_search(analysed, ledger_copy, environment, monkeypatch, slice_seconds):
    """Processes hand back what they have added up after every slice, and are given it to go on with."""
    monkeypatch.setattr(worker_layers, "_SLICE_SECONDS", slice_seconds)
    study_id = analysed[1]
    layers_spec = ledger_copy.studies.get(study_id).spec.layers.model_copy(update={"folds": 3})
    progress_lines = []
    assert search_layers(ledger_copy, study_id, environment, layers_spec, progress_lines.append, max_workers=2) == 4
    parallel_searches = list(ledger_copy.layer_searches.iterate(study_id))
    other_spec = layers_spec.model_copy(update={"keep": layers_spec.keep + 1})
    assert search_layers(ledger_copy, study_id, environment, other_spec, progress_lines.append, max_workers=1) == 4
    for parallel, sequential in zip(parallel_searches, ledger_copy.layer_searches.iterate(study_id), strict=True):
        np.testing.assert_allclose(parallel.record.sums.losses, sequential.record.sums.losses, rtol=1e-9)
        assert (parallel.record.best, parallel.record.chosen) == (sequential.record.best, sequential.record.chosen)


def test_parallel_search_stops_on_request(analysed, ledger_copy, environment):
    study_id = analysed[1]
    layers_spec = ledger_copy.studies.get(study_id).spec.layers.model_copy(update={"folds": 3})
    with pytest.raises(SearchStoppedError):
        search_layers(
            ledger_copy, study_id, environment, layers_spec, lambda _line: None, max_workers=2, should_stop=lambda: True
        )
    assert search_layers(ledger_copy, study_id, environment, layers_spec, lambda _line: None, max_workers=2) >= 0
    assert len(list(ledger_copy.layer_searches.iterate(study_id))) == 4
