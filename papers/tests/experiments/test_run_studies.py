"""The driver of the papers' studies runs what is missing, resumes, and ends in time."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml

from bench.support import reporting
from papers.experiments import run_studies
from papers.experiments.run_studies import PlannedRun, StudyRuns, main, plan_runs
from papers.experiments.study_results import ResultState, StudyResults, list_study_files, read_state
from tests.conftest import ROOT

STUDY = """
name: tiny
title: A tiny study
data: {name: digits, fraction: 0.4, validation: 100}
model: {name: mlp, widths: [4]}
arms: [{method: none}]
training: {epochs: 1}
seeds: [0, 1]
"""


@pytest.fixture(name="results")
def _results(monkeypatch, tmp_path):
    """A folder for results in place of bench/results; no page is written."""
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(reporting, "RESULTS", folder)
    monkeypatch.setenv("BLN_SEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(run_studies, "write_pages", (tmp_path / "pages").touch)
    return folder


@pytest.fixture(name="tiny")
def _tiny(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(STUDY)
    return file


def run(*arguments, hours=1.0):
    return main([*map(str, arguments), "--hours", str(hours), "--workers", "1"])


def trained_seeds(results):
    rows = json.loads((results / "tiny.json").read_text())["loss_and_accuracy_by_seed"]
    return sorted(key for key in next(iter(rows.values())) if key.startswith("test"))


def test_a_missing_study_is_run_and_written_and_a_changed_file_is_run_again(
    results, tiny, tmp_path, monkeypatch, capsys
):
    assert read_state(tiny).state is ResultState.MISSING
    assert run(tiny) == 0
    assert {file.stem for file in results.iterdir()} == {"tiny", "tiny_curves", "tiny_pairs"}
    assert "revision" in json.loads((results / "tiny.json").read_text())["written"]
    assert (tmp_path / "pages").exists()
    assert read_state(tiny).state is ResultState.DONE

    tiny.write_text(STUDY.replace("A tiny study", "A small study"))
    assert read_state(tiny).state is ResultState.DONE
    tiny.write_text(STUDY.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))
    stale = read_state(tiny)
    assert (stale.state, "tiny was measured with other seeds" in stale.reason) == (ResultState.STALE, True)
    monkeypatch.setattr(run_studies, "estimate_seconds", lambda *_: 60.0)
    assert run(tiny, "--list") == 0
    assert capsys.readouterr().out.splitlines()[-2].split()[:3] == ["stale", "1", "tiny"]
    assert run(tiny) == 0
    assert trained_seeds(results) == [f"test seed {seed}" for seed in range(3)]

    (results / "tiny_pairs.json").unlink()
    assert (read_state(tiny).state, read_state(tiny).reason) == (ResultState.INCOMPLETE, "without tiny_pairs")
    assert run(tiny, hours=0) == 0  # read from the database: nothing is trained
    assert read_state(tiny).state is ResultState.DONE


def test_a_study_is_interrupted_at_the_limit_and_resumed(results, tiny, monkeypatch, capsys):
    tiny.write_text(STUDY.replace("epochs: 1", "epochs: 300"))
    planned = PlannedRun(read_state(tiny), seconds=0.0)
    runs = StudyRuns(seconds=8.0, options=("--workers", "1"))
    runs.run(planned)
    assert runs.outcomes["tiny"] == "interrupted at the limit; the next call resumes it"
    assert not runs.failed
    assert not list(results.iterdir())
    StudyRuns(seconds=600.0, options=("--workers", "1")).run(planned)
    assert trained_seeds(results) == ["test seed 0", "test seed 1"]
    assert len(json.loads((results / "tiny_curves.json").read_text())["arms"]["none"]["training_loss"]) == 300


def test_a_study_that_does_not_fit_is_not_started_and_the_next_one_is_tried(results, tiny):
    study = read_state(tiny)
    runs = StudyRuns(seconds=60.0)
    runs.run(PlannedRun(study, seconds=600.0))
    assert runs.outcomes["tiny"] == "not started: about 10 minutes, 1 are left"
    assert not runs.failed


def test_a_failing_study_is_named_at_the_end_and_does_not_stop_the_others(results, tiny, tmp_path, monkeypatch, capsys):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        STUDY.replace("tiny", "wrong").replace("name: digits, fraction: 0.4", "name: cifar10, fraction: 0.4")
    )
    monkeypatch.setattr(run_studies, "estimate_seconds", lambda *_: 0.0)
    assert run(wrong, tiny, "--data", tmp_path) == 1
    assert "failed: wrong" in capsys.readouterr().out
    assert read_state(tiny).state is ResultState.DONE
    assert read_state(wrong).state is ResultState.MISSING


def test_the_cheapest_is_first_and_results_that_lack_a_new_file_are_last(tiny, monkeypatch):
    seconds = {"a": 30.0, "b": 10.0, "c": 5.0}
    spec = read_state(tiny).spec
    studies = [
        StudyResults(tiny, spec.model_copy(update={"name": name}), state, "", needs_gpu=False)
        for name, state in zip(
            "abcd", (*[ResultState.MISSING] * 2, ResultState.INCOMPLETE, ResultState.DONE), strict=True
        )
    ]
    monkeypatch.setattr(run_studies, "estimate_seconds", lambda study, _: seconds[study.name])
    assert [run.study.name for run in plan_runs(studies, ())] == ["b", "a", "c", "d"]


def test_a_study_that_needs_a_gpu_is_named_and_not_estimated_without_one(tiny, monkeypatch):
    study = StudyResults(tiny, read_state(tiny).spec, ResultState.MISSING, "", needs_gpu=True)
    monkeypatch.setattr(run_studies.torch.cuda, "is_available", lambda: False)
    (planned,) = plan_runs([study], ())
    assert planned.seconds is None
    assert str(planned).split() == ["missing", "-", "tiny", "needs", "a", "GPU"]


def test_every_study_of_a_paper_belongs_and_every_listed_name_exists():
    files = list_study_files()
    names = [file.stem for file in files]
    assert len(set(names)) == len(names) > 60
    assert {file.stem for file in (ROOT / "papers" / "studies").glob("*/*.yaml")} <= set(names)
    assert {"bln_imdb_full_b25", "geometry_mnist", "none_cifar10_20pct_b25"} <= set(names)
    assert {"quickstart", "shift_digits"}.isdisjoint(names)
    states = [read_state(file) for file in files]
    lists = yaml.safe_load((ROOT / "papers" / "experiments" / "studies.yaml").read_text())
    assert {study.name for study in states if study.needs_gpu} == set(lists["gpu"])


def test_make_has_the_driver_with_its_limit():
    printed = subprocess.run(["make", "-n", "papers", "HOURS=2"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "papers.experiments.run_studies --hours 2" in printed.stdout
