"""The commands of the page on other libraries, executed as they stand."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from typer.testing import CliRunner

pytest.importorskip("tensorboard")
pytest.importorskip("wandb")

from bench.support.tracked_studies import read_tensorboard_runs, read_wandb_runs, run_simulated_study
from bln_search.cli.main import app
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.conftest import ROOT


def documented_commands():
    page = (ROOT / "docs" / "integrations.md").read_text()
    section = page.partition("## MLflow, TensorBoard, Weights & Biases")[2]
    block = re.search(r"```bash\n(.*?)```", section, re.DOTALL)[1]
    return [line.partition("#")[0].split() for line in block.splitlines()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb", "ignore::ResourceWarning")
def test_the_commands_for_files_write_every_trial_once(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    with closing(open_and_upgrade_ledger(load_settings().database_url)) as ledger:
        study_id = run_simulated_study(ledger, trials=5, epochs=2, name="digits_example")
        keys = [trial.key[:8] for trial in ledger.trials.list_trials(study_id)]
    commands = [words[1:] for words in documented_commands() if any(word.endswith(":runs") for word in words)]
    assert len(commands) == 2
    for words in commands * 2:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    expected = {key: [[1, 2]] for key in keys}
    assert read_tensorboard_runs(tmp_path / "runs") == expected
    assert read_wandb_runs(tmp_path / "runs") == expected
