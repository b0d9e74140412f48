"""A trial evaluates every row on texts that are longer than those of training; padding is masked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.data.text_lengths import make_splits_with_text_length
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import parse_study
from bln_search.specs.trial import list_planned_trial_specs
from tests.data.reviews import make_reviews, write_lines

STUDY = """
name: longer
data: {name: imdb, validation: 10}
model: {name: rnn, widths: [3], embedding: 4, dense: 3, normalize: cells, MODEL}
arms: [{method: METHOD}]
training: {epochs: 1, batch_size: 10}
seeds: [0]
evaluation: {lengths: [90]}
"""


def trial_of(method, model):
    (trial,) = list_planned_trial_specs(parse_study(STUDY.replace("METHOD", method).replace("MODEL", model)))
    return trial


def run(tmp_path, trial):
    write_lines(tmp_path / "imdb", make_reviews(per_class=10))
    environment = ExecutionEnvironment(tmp_path, tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    messages = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, messages.append):
        pass
    (evaluations,) = (message.evaluations for message in messages if isinstance(message, EvaluationDone))
    checkpoint = next(message.checkpoint for message in messages if isinstance(message, TrainingDone))
    return environment, checkpoint, evaluations


@pytest.mark.filterwarnings("ignore:ill-conditioned")  # rows of bn that the test leaves out
@pytest.mark.parametrize("method", ["bn", *(pytest.param(method, marks=pytest.mark.slow) for method in ("ln", "none"))])
def test_losses_at_another_length_equal_a_plain_loop(tmp_path, method):
    """Rows of bn with deviations of mini-batches of few examples amplify the rounding of single precision."""
    trial = trial_of(method, "longer_sequences: last_time_step, mask_padding: true")
    environment, checkpoint, evaluations = run(tmp_path, trial)
    compared = 0
    with use_trained_network(trial, checkpoint, environment) as loaded:
        inputs, targets = make_splits_with_text_length(loaded.data, 90)[Split.VALIDATION]
        rows = [row for row in loaded.planned_inference_rows if str(row.configuration) not in ("TF--", "FF--")]
        for row in rows:
            with (
                torch.no_grad(),
                evaluation_mode(loaded.network),
                use_row_in_all_layers(row, loaded.populations_by_estimate_and_layer),
            ):
                outputs = torch.cat([loaded.network(x) for x in inputs.split(10)])
            expected = F.cross_entropy(outputs, targets, reduction="none").numpy()
            (evaluation,) = (
                evaluation
                for evaluation in evaluations
                if evaluation.key.condition == "length-90"
                and evaluation.key.split is Split.VALIDATION
                and (evaluation.key.configuration, evaluation.key.estimate) == (row.configuration, row.estimate)
            )
            np.testing.assert_allclose(evaluation.outcomes.losses, expected, rtol=1e-4, atol=1e-5)
            compared += 1
    assert compared == {"bn": 2, "ln": 4, "none": 1}[method]
    assert {evaluation.key.condition for evaluation in evaluations} == {"", "length-90"}


def test_layer_normalization_is_measured_where_it_stores_nothing(tmp_path):
    _, _, evaluations = run(tmp_path, trial_of("ln", "longer_sequences: refuse"))
    measured = {
        str(evaluation.key.configuration): evaluation.reason is None
        for evaluation in evaluations
        if evaluation.key.condition == "length-90"
    }
    assert measured == {"--FF": True, "--TF": False, "--FT": False, "--TT": False}


def test_batch_normalization_needs_the_option(tmp_path):
    permitted = trial_of("bn", "longer_sequences: last_time_step")
    refused = permitted.model_copy(update={"model": permitted.model.model_copy(update={"longer_sequences": None})})
    with pytest.raises(ModelError, match=r"bn has statistics for the 80 time steps .* the sequence has 90"):
        run(tmp_path, refused)
