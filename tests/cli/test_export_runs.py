from __future__ import annotations

import json
from contextlib import closing

import pytest

from bench.support.tracked_studies import run_simulated_study
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger


@pytest.fixture
def study_id(home):
    """A complete study of five trials in the home of the test."""
    with closing(open_and_upgrade_ledger(load_settings().database_url)) as ledger:
        return run_simulated_study(ledger, trials=5, epochs=2)


@pytest.fixture
def tensorboard():
    pytest.importorskip("tensorboard")


@pytest.mark.usefixtures("tensorboard", "pipe")
def test_a_study_is_exported_once(invoke, study_id, tmp_path):
    to = f"tensorboard:{tmp_path / 'runs'}"
    done = invoke("export-runs", "grown", "--to", to)
    assert done.stdout == f"{to}: 5 runs, of which 5 had something new; the ranked table was written\n"
    again = json.loads(invoke("export-runs", study_id, "--to", to, "--format", "json").stdout)
    assert again == {"study": study_id, "target": to, "runs": 5, "written": 0, "table_written": False, "network": None}


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("neptune:x", "the target names no tracker: write mlflow:URI, tensorboard:DIR or wandb-offline:DIR"),
        ("tensorboard:", "the target has nothing after tensorboard:"),
        ("http://ada:s3cret@host", "the target names no tracker"),
    ],
)
@pytest.mark.usefixtures("pipe")
def test_another_target_is_refused_before_anything_is_read(invoke, home, target, sentence):
    done = invoke("export-runs", "grown", "--to", target)
    assert done.exit_code == 2
    assert sentence in " ".join(done.stderr.replace("│", " ").split())
    assert "s3cret" not in done.output


@pytest.mark.usefixtures("tensorboard")
def test_an_unknown_study_and_a_folder_that_cannot_be_written_are_errors(invoke, study_id, tmp_path):
    assert "no study" in str(invoke("export-runs", "other", "--to", f"tensorboard:{tmp_path}").exception)
    (tmp_path / "file").touch()
    done = invoke("export-runs", study_id, "--to", f"tensorboard:{tmp_path / 'file' / 'x'}")
    assert "file/x cannot be written: Not a directory" in str(done.exception)


def test_the_tracker_of_the_settings_is_checked_and_shown_without_its_password(invoke, home, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_TRACKER", "mlflow:http://ada:s3cret@host")
    shown = invoke("settings")
    assert "mlflow:http://ada:***@host" in shown.stdout
    monkeypatch.setenv("BLN_SEARCH_TRACKER", "neptune:s3cret")
    refused = invoke("list")
    assert "BLN_SEARCH_TRACKER" in str(refused.exception)
    assert "names no tracker" in str(refused.exception)
