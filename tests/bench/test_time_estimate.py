"""The benchmark of estimated times: its studies are valid, and a saved estimate joins those that the file has."""

import json
from pathlib import Path

import pytest

from bench.support import reporting
from bench.time_estimate import LARGE_STUDIES, SMALL_STUDIES, estimate_large_studies, find_study_file
from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.specs import load_study, parse_study


def test_studies_are_valid():
    assert all(parse_study(text).name == name for name, text in SMALL_STUDIES.items())
    assert all(load_study(find_study_file(name)).name == name for name in LARGE_STUDIES)


def test_a_saved_estimate_keeps_the_other_studies_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    results = tmp_path / "bench" / "results"
    results.mkdir(parents=True)
    monkeypatch.setattr(reporting, "RESULTS", results)
    file = results / "time_estimates_cpu.json"
    file.write_text(json.dumps({"result": {"studies": {"other": {"seconds_of_study": 3.0}}}}))
    study = tmp_path / "quickstart.yaml"
    study.write_text(SMALL_STUDIES["quickstart"])
    environment = ExecutionEnvironment(tmp_path, tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    estimate_large_studies([str(study)], environment, "cpu", 0.05, save=True)
    saved = json.loads(file.read_text())["result"]["studies"]
    assert saved["other"] == {"seconds_of_study": 3.0}
    assert saved[str(study)]["seconds_of_study"] > 0
    assert saved[str(study)]["provenance"]["hardware"]
