"""A study with conditions runs in this process; its table equals plain passes over the corrupted images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.enums import Split
from bln_search.core.states import StudyState
from bln_search.data.corruptions import corrupt_images
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.execution.loaded_network import use_trained_network
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import load_study
from bln_search.worker import run_study
from tests.conftest import ROOT
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher


def shortened(study):
    """The study with one epoch, few examples and two seeds."""
    values = study.model_dump(mode="json")
    values["data"] |= {"fraction": 0.2}
    values["training"] |= {"epochs": 1}
    return type(study).model_validate({**values, "seeds": [0, 1]})


@torch.no_grad()
def plain_loss(loaded, row, batch_size, split, condition):
    """Mean loss by plain passes over mini-batches, the last one filled with the first images."""
    source, targets = loaded.data.unprepared[split], loaded.data.splits[split][1]
    images = (source.inputs / 16).astype(np.float32)
    corrupted = corrupt_images(images, condition.image_corruption, seed=condition.seed, indices=source.indices)
    standardizer = loaded.data.standardizer
    inputs = torch.from_numpy((corrupted.astype(np.float64) * 16 - standardizer.mean) / standardizer.deviation).float()
    losses, n = [], len(inputs)
    with evaluation_mode(loaded.network), use_row_in_all_layers(row, loaded.populations_by_estimate_and_layer):
        for start in range(0, n, batch_size):
            chosen = [(start + offset) % n for offset in range(batch_size)]
            count = min(batch_size, n - start)
            outputs = loaded.network(inputs[chosen])[:count]
            losses.append(F.cross_entropy(outputs, targets[start : start + count], reduction="none").double())
    return float(torch.cat(losses).mean())


@pytest.mark.slow
def test_study_with_conditions_from_its_file_to_its_table(ledger, environment):
    study = shortened(load_study(ROOT / "studies" / "shift_digits.yaml"))
    study_id = ledger.studies.store_study_once(study)
    assert run_study(ledger, study_id, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
    board = ledger.results.rank_rows_of_study(study_id, study)
    assert board.condition_names == ("gaussian_noise-3", "dim")
    losses = {}
    for trial in ledger.trials.list_trials(study_id):
        with use_trained_network(trial.spec, trial.checkpoint, environment) as loaded:
            for row in loaded.planned_inference_rows[::3]:
                for condition in study.evaluation.conditions:
                    for batch_size in trial.spec.inference_batch_sizes:
                        key = (trial.arm, row.configuration, row.estimate, batch_size, condition.name)
                        losses.setdefault(key, []).append(
                            plain_loss(loaded, row, batch_size, Split.VALIDATION, condition)
                        )
    compared = 0
    for row in board.rows:
        for name in board.condition_names:
            expected = losses.get((row.arm, row.configuration, row.estimate, row.batch_size, name))
            if expected is not None and row.conditions is not None:
                value = row.conditions.by_condition[name][Split.VALIDATION].loss
                assert value.mean == pytest.approx(np.mean(expected), rel=1e-4)
                compared += 1
    assert compared >= 20
