"""Networks trained in this process, without a ledger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bln_search.api.export.description import ExportedRowMetrics, LossAndAccuracy
from bln_search.api.export.study_export import TrainedRow
from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.data import load_data_set
from bln_search.execution import environment as places
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """
name: small
data: {{name: digits, fraction: 0.3, validation: 150}}
model: {model}
arms: [{arm}]
training: {{epochs: 2}}
seeds: [0]
evaluation: {evaluation}
"""
DIGITS = load_data_set("digits", None)


def enlarged():
    """The digits at 16×16 pixels, which LeNet can take."""

    def double_size(images):
        return np.repeat(np.repeat(images, 2, axis=2), 2, axis=3)

    return replace(DIGITS, train_inputs=double_size(DIGITS.train_inputs), test_inputs=double_size(DIGITS.test_inputs))


def train(folder, model, arm, evaluation="{}", data=DIGITS, text=STUDY):
    """The study's only trial, its checkpoint and its evaluations; checkpoints go to `folder`."""
    study = parse_study(text.format(model=model, arm=arm, evaluation=evaluation))
    (trial,) = list_planned_trial_specs(study)
    messages = []
    load_data = places.load_data_set
    places.load_data_set = lambda *_: data
    places.load_and_prepare_data.cache_clear()
    try:
        for _ in iter_epochs_of_trial_task(
            TrialTask(1, trial), places.ExecutionEnvironment(folder, folder, FolderStore(folder)), messages.append
        ):
            pass
    finally:
        places.load_data_set = load_data
        places.load_and_prepare_data.cache_clear()
    checkpoint = next(message.checkpoint for message in messages if isinstance(message, TrainingDone))
    evaluations = next(message.evaluations for message in messages if isinstance(message, EvaluationDone))
    return study, trial, checkpoint, evaluations


def row_of(trained, code, batch_size=25):
    """The row of `code`, and the evaluation of it on test."""
    study, trial, checkpoint, evaluations = trained
    row_evaluations = [
        evaluation
        for evaluation in evaluations
        if str(evaluation.key.configuration) == code and evaluation.key.batch_size == batch_size
    ]
    figures = {
        evaluation.key.split.value: LossAndAccuracy(loss=evaluation.loss or 0.0, accuracy=evaluation.accuracy or 0.0)
        for evaluation in row_evaluations
    }
    row = TrainedRow(
        study=study.name,
        study_digest=study.digest,
        trial=trial,
        checkpoint=checkpoint,
        configuration=InferenceConfiguration(code),
        estimate=row_evaluations[0].key.estimate,
        batch_size=batch_size,
        figures=ExportedRowMetrics(seeds=1, over_seeds=figures, this_seed=figures),
    )
    return row, next(evaluation for evaluation in row_evaluations if evaluation.key.split is Split.TEST)
