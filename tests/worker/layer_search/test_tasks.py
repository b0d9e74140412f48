"""Per-layer searches of trained networks of other tasks: uniform losses equal those of the leaderboard."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.task_plugin import find_task_description
from bln_search.core.tasks import TaskName
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.search.layers.trial_search import search_layers_of_trial
from bln_search.search.preflight import run_preflight_checks
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.data.reviews import make_reviews, write_lines

pytestmark = pytest.mark.slow

COMMON = """
name: layers_of_tasks
seeds: [3]
training: {epochs: 1, batch_size: 8}
layers: {}
"""
STUDIES = {
    TaskName.TOKEN_CLASSIFICATION: """
data: {name: imdb_case, validation: 20}
model: {name: gru, widths: [6, 5], embedding: 7, dense: 4, normalize: layers}
arms: [{method: bn}]
""",
    TaskName.MULTI_LABEL: """
data: {name: mnist_pair_digits, validation: 0.1, fraction: 0.002}
model: {name: mlp, widths: [8, 7]}
arms: [{method: bln}]
""",
}


@pytest.mark.parametrize("task", STUDIES, ids=str)
def test_uniform_losses_equal_those_of_the_leaderboard(task, tmp_path, request):
    has_texts = find_task_description(task).has_prediction_per_token
    if has_texts:
        write_lines(tmp_path / "imdb", make_reviews())
    data = tmp_path if has_texts else request.getfixturevalue("real_data")
    study = parse_study(COMMON + STUDIES[task])
    environment = ExecutionEnvironment(data, tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    run_preflight_checks(study, environment)
    (trial,) = list_planned_trial_specs(study)
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    (checkpoint,) = [message.checkpoint for message in sent if isinstance(message, TrainingDone)]
    (done,) = [message for message in sent if isinstance(message, EvaluationDone)]
    record = search_layers_of_trial(trial, checkpoint, environment, study.layers)
    load_and_prepare_data.cache_clear()
    evaluations = {
        str(evaluation.key.configuration): evaluation
        for evaluation in done.evaluations
        if evaluation.key.split is Split.VALIDATION
    }
    uniform = record.space.choice_digits_by_uniform_configuration()
    assert {str(configuration) for configuration in uniform} == set(evaluations)
    losses, accuracies = record.sums.mean_loss_per_configuration, record.sums.accuracy_per_configuration
    assert len(losses) == record.space.num_configurations > len(uniform)
    for configuration, digits in uniform.items():
        index, evaluation = record.space.index_of_choice_digits(digits), evaluations[str(configuration)]
        assert losses[index] == pytest.approx(evaluation.loss, rel=1e-5)
        assert accuracies[index] == pytest.approx(evaluation.accuracy or 0.0)
