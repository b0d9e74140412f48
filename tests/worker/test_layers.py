"""Per-layer configurations of a study's networks: searched, stopped, gone on with, put together, reported."""

from __future__ import annotations

import sqlite3
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing

import numpy as np
import pytest

from bln_search.core.checkpoints import Folder
from bln_search.core.enums import LayerScope, LayerSearch, PopulationEstimate, Scope
from bln_search.core.errors import DataError, ModelError, UnknownStudyError
from bln_search.execution.environment import Place
from bln_search.execution.executors.local import LocalExecutor
from bln_search.search.layers import trial_search as layers_of_network
from bln_search.specs import parse_study
from bln_search.specs.layer_search import LayersSpec
from bln_search.storage.access import create_token
from bln_search.storage.analyses import claim_analysis, find_analysis
from bln_search.storage.layers import find_progress, is_searched, layer_searches
from bln_search.storage.ledger import open_ledger
from bln_search.storage.trained import stored_evaluations, trained_trials
from bln_search.worker import analysis as worker_analysis
from bln_search.worker import layer_search as worker_layers
from bln_search.worker import loop as worker_loop
from bln_search.worker.analysis import Attended, Searched, analyze
from bln_search.worker.layer_search import StoppedError, search_layers
from bln_search.worker.loop import Worker
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


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def place(home):
    return Place(home / "data", home / "cache", Folder(home / "checkpoints"))


@pytest.fixture(scope="module")
def worked(home, place):
    """A service's worker and the study it carried out, layers and all."""
    ledger = open_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    create_token(ledger.engine, "ada", Scope.WRITE)
    worker = Worker(ledger, place, LocalExecutor(place, 1), cap=2)
    study_id = worker.queue.submit(parse_study(STUDY), "ada").study_id
    worker.work(once=True)
    yield worker, study_id
    ledger.close()


@pytest.fixture
def copied(worked, home, tmp_path):
    """A ledger of its own with the trained study in it; its checkpoints are where they were."""
    path = tmp_path / "copied.sqlite3"
    with closing(sqlite3.connect(home / "ledger.sqlite3")) as there, closing(sqlite3.connect(path)) as here:
        there.backup(here)
    with_layers = open_ledger(f"sqlite:///{path}")
    forget(with_layers)
    yield with_layers
    with_layers.close()


def forget(ledger):
    """Nothing is searched, nothing is analysed."""
    with ledger.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM layer_search")
        connection.exec_driver_sql("DELETE FROM analysis")


def silent(_line):
    pass


def kept(ledger, study_id):
    return list(layer_searches(ledger.engine, study_id))


def test_a_worker_searches_the_layers_of_every_network_a_study_asks_for(worked):
    worker, study_id = worked
    analysis = find_analysis(worker.ledger.engine, study_id).analysis
    assert analysis.layers_reason is None
    assert analysis.comparison is not None
    assert [(one.arm, one.size, len(one.networks)) for one in analysis.layers] == [("bln", "256", 2), ("ln", "16", 2)]
    for one in analysis.layers:
        assert [network.seed for network in one.networks] == [0, 1]
        assert (one.scope, one.search, one.folds) == (LayerScope.PER_LAYER, LayerSearch.EXACT, 2)
        assert (one.estimate, one.batch_size, one.examples) == (PopulationEstimate.FROZEN, 25, 130)
        assert (one.marginal, one.unfinished, one.difference.networks) == (True, (), 2)
        assert len(one.uniform) == (16 if one.arm == "bln" else 4)
        assert len(one.rows) == (100 if one.arm == "bln" else 16)
        assert len(one.effects) == 2 * (4 if one.arm == "bln" else 2)
    assert claim_analysis(worker.ledger.engine, "host/9/0", worker.ledger.clock()) is None


def test_uniform_configurations_have_the_losses_that_the_leaderboard_has(worked):
    """What the tree walks and what the one pass evaluates are the same networks under the same words."""
    worker, study_id = worked
    analysis = find_analysis(worker.ledger.engine, study_id).analysis
    for one in analysis.layers:
        of_word = {}
        for trial in trained_trials(worker.ledger.engine, study_id, arm=one.arm):
            for evaluation in stored_evaluations(worker.ledger.engine, trial.id):
                if evaluation.key.split == "validation":
                    of_word.setdefault(str(evaluation.key.configuration), []).append(evaluation)
        assert {row.configuration for row in one.uniform} == set(of_word)
        for row in one.uniform:
            assert row.loss == pytest.approx(np.mean([each.loss for each in of_word[row.configuration]]), rel=1e-5)
            assert row.accuracy == pytest.approx(np.mean([each.accuracy for each in of_word[row.configuration]]))


def test_what_is_searched_is_not_searched_again(worked, place):
    worker, study_id = worked
    said = []
    asked = worker.ledger.study(study_id).spec.layers
    assert search_layers(worker.ledger, study_id, place, asked, said.append) == 0
    assert said == []


def test_a_search_afterwards_says_how_it_goes_and_finds_the_same(worked, copied, place):
    study_id = worked[1]
    said = []
    asked = copied.study(study_id).spec.layers
    assert search_layers(copied, study_id, place, asked, said.append) == 4
    assert [line.split(":")[0] for line in said] == ["bln seed 0", "ln seed 0", "bln seed 1", "ln seed 1"]
    assert [line.split()[-1] for line in said] == ["(1/4)", "(2/4)", "(3/4)", "(4/4)"]
    for one, other in zip(kept(copied, study_id), kept(worked[0].ledger, study_id), strict=True):
        assert (one.arm, one.seed, one.spec) == (other.arm, other.seed, other.spec)
        assert_same(one.record, other.record)


def test_one_network_after_the_other_may_be_the_last(worked, copied, place):
    """Asked to stop, it begins no other network; what is searched is kept."""
    study_id = worked[1]
    asked = LayersSpec(search=LayerSearch.COORDINATE, evaluations=50)
    said = []
    with pytest.raises(StoppedError):
        search_layers(copied, study_id, place, asked, said.append, stopping=lambda: len(said) >= 3)
    assert len(kept(copied, study_id)) == 3
    assert search_layers(copied, study_id, place, asked, said.append) == 1


@pytest.mark.parametrize("groups_of_batches", [1, 2, 3])
def test_an_enumeration_that_is_stopped_goes_on_where_it_was(worked, copied, place, monkeypatch, groups_of_batches):
    study_id = worked[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)  # one mini-batch after the other
    asked = copied.study(study_id).spec.layers
    first = trained_trials(copied.engine, study_id)[0]
    search_layers(copied, study_id, place, asked, silent)
    uninterrupted = kept(copied, study_id)
    forget(copied)
    looks = iter([False] * groups_of_batches)  # one before the network, then one behind each mini-batch
    said = []
    with pytest.raises(StoppedError):
        search_layers(copied, study_id, place, asked, said.append, stopping=lambda: next(looks, True))
    assert said == [f"bln seed 0: {groups_of_batches} of 6 mini-batches, about {said[0].split()[-3]} s left"]
    sums, done = find_progress(copied.engine, first.id, asked)
    assert done == groups_of_batches
    assert sums.examples.sum() == 25 * groups_of_batches
    assert not is_searched(copied.engine, first.id, asked)
    walked = counted(monkeypatch)
    search_layers(copied, study_id, place, asked, silent)
    assert walked[:2] == [list(range(groups_of_batches + 1, 7)), [1, 2, 3, 4, 5, 6]]  # only the first one had begun
    for one, other in zip(kept(copied, study_id), uninterrupted, strict=True):
        assert_same(one.record, other.record)


def counted(monkeypatch):
    """For each network how many mini-batches were in behind each step."""
    walked = []
    usual = worker_layers._Progress.keep

    def keep(self, sums):
        if not walked or walked[-1][0] is not self:
            walked.append((self, steps := []))
            lists.append(steps)
        walked[-1][1].append(sums.done)
        usual(self, sums)

    lists = []
    monkeypatch.setattr(worker_layers._Progress, "keep", keep)
    return lists


def test_an_enumeration_is_written_down_now_and_then(worked, copied, place, monkeypatch):
    study_id = worked[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    monkeypatch.setattr(worker_layers, "_WRITTEN_EVERY", 0.0)
    said = []
    search_layers(copied, study_id, place, copied.study(study_id).spec.layers, said.append)
    assert [line.split(",")[0] for line in said[:6]] == [
        f"bln seed 0: {done} of 6 mini-batches" for done in range(1, 7)
    ]
    assert len(said) == 4 * 7


def test_progress_of_another_question_is_not_gone_on_with(worked, copied, place, monkeypatch):
    study_id = worked[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    looks = iter([False, False])
    with pytest.raises(StoppedError):
        search_layers(copied, study_id, place, LayersSpec(folds=3), silent, stopping=lambda: next(looks, True))
    walked = counted(monkeypatch)
    search_layers(copied, study_id, place, LayersSpec(folds=2), silent)
    assert walked[0] == [1, 2, 3, 4, 5, 6]


def held_until(ledger):
    with ledger.engine.begin() as connection:
        return connection.exec_driver_sql("SELECT runner_until FROM study").scalar_one()


def test_a_worker_that_is_told_to_stop_leaves_the_analysis_to_the_next_one(worked, copied, place, monkeypatch):
    study_id = worked[1]
    monkeypatch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
    worker = Worker(copied, place, LocalExecutor(place, 1), cap=2)
    usual, meanwhile = worker_layers._Progress.keep, []

    def keep(self, sums):
        meanwhile.append(claim_analysis(copied.engine, "host/9/0", copied.clock()))
        before = held_until(copied)
        worker_loop._Presence(worker)._beat()
        assert held_until(copied) > before
        worker.stopping.set()
        usual(self, sums)

    monkeypatch.setattr(worker_layers._Progress, "keep", keep)
    assert worker._work_out()
    monkeypatch.undo()
    assert meanwhile == [None], "it is this worker's as long as it is at it"
    assert find_analysis(copied.engine, study_id) is None
    first = trained_trials(copied.engine, study_id)[0]
    assert find_progress(copied.engine, first.id, copied.study(study_id).spec.layers)[1] == 1
    Worker(copied, place, LocalExecutor(place, 1), cap=2).work(once=True)
    assert len(find_analysis(copied.engine, study_id).analysis.layers) == 2


def test_damaged_outcomes_are_the_reason_of_their_study_and_hold_up_no_other(worked, copied, place):
    study_id = worked[1]
    with copied.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE outcomes SET losses = x'00'")
    analysis = analyze(copied, study_id, place)
    assert "are damaged" in analysis.reason
    assert find_analysis(copied.engine, study_id).analysis.reason == analysis.reason


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_study_that_is_deleted_while_it_is_analysed_does_not_end_the_worker(
    worked, copied, place, monkeypatch, moment
):
    study_id = worked[1]
    usual = worker_analysis._analysis

    def deleting(*given):
        found = usual(*given)
        copied.delete_study(study_id)
        return found

    if moment == "before":
        copied.delete_study(study_id)
    else:
        monkeypatch.setattr(worker_analysis, "_analysis", deleting)
    Worker(copied, place, LocalExecutor(place, 1), cap=2)._analyze(study_id)
    with pytest.raises(UnknownStudyError, match=f"there is no study {study_id}"):
        copied.study(study_id)


@pytest.mark.parametrize("error", [ModelError, DataError])
def test_what_cannot_be_searched_is_said_and_the_others_are_kept(worked, copied, place, monkeypatch, error):
    study_id = worked[1]
    usual = worker_layers.search_trial

    def refusing(trial, *rest, **options):
        if trial.arm.label == "bln":
            raise error("it branches")
        return usual(trial, *rest, **options)

    monkeypatch.setattr(worker_layers, "search_trial", refusing)
    said = []
    asked = copied.study(study_id).spec.layers
    with pytest.raises(error, match=r"the layers of 2 of 4 networks were not searched: bln seed 0: it branches"):
        search_layers(copied, study_id, place, asked, said.append)
    assert [said[0], said[2]] == ["bln seed 0: it branches", "bln seed 1: it branches"]
    analysis = analyze(copied, study_id, place)
    assert "2 of 4 networks were not searched: bln seed 0: it branches" in analysis.layers_reason
    assert [one.arm for one in analysis.layers] == ["ln"]
    assert analysis.comparison is not None
    assert find_analysis(copied.engine, study_id).analysis == analysis
    assert analyze(copied, study_id, None).layers_reason == analysis.layers_reason  # a probe searches nothing
    assert analyze(copied, study_id, None, searched=Searched()).layers_reason is None


def test_a_search_that_breaks_down_takes_nothing_else_with_it(worked, copied, place, monkeypatch):
    def broken(*_, **__):
        raise BrokenProcessPool("a process was terminated")

    monkeypatch.setattr(worker_layers, "search_trial", broken)
    analysis = analyze(copied, worked[1], place)
    assert analysis.layers_reason == "BrokenProcessPool: a process was terminated"
    assert analysis.comparison is not None
    assert analysis.recommendation is not None
    assert analysis.reason is None


def test_a_checkpoint_that_is_not_here_costs_its_network_alone(worked, copied, place):
    study_id = worked[1]
    with copied.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE checkpoint SET file = 'gone.safetensors' WHERE id = 1")
    with pytest.raises(DataError, match=r"1 of 4 networks were not searched: bln seed 0: .*gone.safetensors"):
        search_layers(copied, study_id, place, LayersSpec(), silent)
    assert [(one.arm, one.seed) for one in kept(copied, study_id)] == [("ln", 0), ("bln", 1), ("ln", 1)]
    analysis = analyze(copied, study_id, None)
    assert [one.unfinished for one in analysis.layers] == [(0,), ()]


def test_more_folds_than_mini_batches_are_said_so(worked, copied, place):
    with pytest.raises(DataError, match=r"4 of 4 networks were not searched: bln seed 0: 7 folds of 6 mini-batches"):
        search_layers(copied, worked[1], place, LayersSpec(folds=7), silent)


def test_a_study_without_a_trained_network_is_told_to_run_first(tmp_path, place):
    ledger = open_ledger(f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    study_id = ledger.accept(parse_study(STUDY))
    with pytest.raises(DataError, match="no trained network yet: run it first"):
        search_layers(ledger, study_id, place, LayersSpec(), silent)
    assert analyze(ledger, study_id, place).layers_reason is None  # nothing is wrong with it
    ledger.close()


def test_tied_layers_and_coordinate_searches_give_results_of_their_own(worked, copied, place):
    study_id = worked[1]
    tied = LayersSpec(scope=LayerScope.GROUPS, groups={"all": ("*",)})
    search_layers(copied, study_id, place, tied, silent)
    bln, ln = analyze(copied, study_id, None, keep=False).layers
    assert (bln.scope, bln.size, ln.size) == (LayerScope.GROUPS, "16", "4")
    assert [(one.name, len(one.layers), len(one.options)) for one in bln.choices] == [("all", 2, 16)]
    assert bln.difference.mean == 0
    assert not bln.difference.better
    search_layers(copied, study_id, place, LayersSpec(search=LayerSearch.COORDINATE, evaluations=60), silent)
    bln, ln = analyze(copied, study_id, None, keep=False).layers
    assert (bln.search, bln.size, bln.marginal) == (LayerSearch.COORDINATE, "256", False)
    assert all(network.evaluations <= 3 * 60 for network in bln.networks)
    assert 16 <= len(bln.rows) <= 100


def test_a_pattern_that_fits_no_layer_is_the_reason_there_is_no_result(worked, copied, place):
    study_id = worked[1]
    with pytest.raises(ModelError, match=r"the pattern 'encoder\.\*' of the group 'a' fits no normalization layer"):
        search_layers(
            copied, study_id, place, LayersSpec(scope=LayerScope.GROUPS, groups={"a": ("encoder.*",)}), silent
        )
    assert kept(copied, study_id) == []


def test_a_search_that_is_under_way_shows_the_networks_that_are_done(worked, copied, place):
    """Another question half answered: those answered last count, the others are still to be searched."""
    study_id = worked[1]
    search_layers(copied, study_id, place, LayersSpec(), silent)
    said = []
    again = LayersSpec(search=LayerSearch.RANDOM, evaluations=40)
    with pytest.raises(StoppedError):
        search_layers(copied, study_id, place, again, said.append, stopping=lambda: len(said) >= 1)
    bln, ln = analyze(copied, study_id, None, keep=False).layers
    assert (bln.search, [one.seed for one in bln.networks], bln.unfinished) == (LayerSearch.RANDOM, [0], (1,))
    assert (ln.search, ln.unfinished) == (LayerSearch.EXACT, ())


def test_layers_of_a_study_that_does_not_ask_are_left_alone(worked, copied, place):
    study_id = worked[1]
    plain = parse_study(STUDY.replace("layers: {folds: 2, keep: 40}", ""))
    with copied.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE study SET spec = ?", (plain.canonical,))
    analysis = analyze(copied, study_id, place)
    assert (analysis.layers, analysis.layers_reason) == ((), None)
    assert kept(copied, study_id) == []


def test_who_waits_is_told_while_an_analysis_searches(worked, copied, place):
    said = []
    analyze(copied, worked[1], place, Attended(said.append), keep=False)
    assert len(said) == 4


@pytest.mark.parametrize("slice_seconds", [0.0, 60.0])
def test_side_by_side_gives_what_one_after_the_other_gives(worked, copied, place, monkeypatch, slice_seconds):
    """Processes hand back what they have added up after every slice, and are given it to go on with."""
    monkeypatch.setattr(worker_layers, "_SLICE", slice_seconds)
    study_id = worked[1]
    asked = copied.study(study_id).spec.layers.model_copy(update={"folds": 3})
    said = []
    assert search_layers(copied, study_id, place, asked, said.append, workers=2) == 4
    together = list(layer_searches(copied.engine, study_id))
    apart = asked.model_copy(update={"keep": asked.keep + 1})
    assert search_layers(copied, study_id, place, apart, said.append, workers=1) == 4
    for one, other in zip(together, layer_searches(copied.engine, study_id), strict=True):
        np.testing.assert_allclose(one.record.sums.losses, other.record.sums.losses, rtol=1e-9)
        assert (one.record.best, one.record.chosen) == (other.record.best, other.record.chosen)


def test_side_by_side_stops_where_it_is_asked_to(worked, copied, place):
    study_id = worked[1]
    asked = copied.study(study_id).spec.layers.model_copy(update={"folds": 3})
    with pytest.raises(StoppedError):
        search_layers(copied, study_id, place, asked, lambda _line: None, workers=2, stopping=lambda: True)
    assert search_layers(copied, study_id, place, asked, lambda _line: None, workers=2) >= 0
    assert len(list(layer_searches(copied.engine, study_id))) == 4
