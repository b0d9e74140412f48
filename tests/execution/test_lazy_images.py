"""A trial on image folders: trained with random parts, evaluated as the same images in memory are."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.split_evaluation import evaluate_split
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.search.preflight import run_preflight_checks
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.specs.minimal_study import problems

STUDY = """
name: folders
data: {name: imagenet, standardization: channel, validation: 4}
model: {name: mlp, widths: [4]}
arms: [{method: bn}]
training: {epochs: 1, batch_size: 2, order: ORDER, augmentation: {resized_crop: true, flip: true}}
seeds: [0]
evaluation: {splits: [train], train_examples: as_validation}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for split, count in (("train", 5), ("val", 3)):
        for name in ("n01", "n02"):
            (folder / "imagenet" / split / name).mkdir(parents=True)
            for index in range(count):
                image = Image.fromarray(rng.integers(0, 255, (30, 40, 3), np.uint8))
                image.save(folder / "imagenet" / split / name / f"{index}.JPEG")
    return ExecutionEnvironment(folder, folder / "cache", FolderStore(folder / "checkpoints"))


@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_trial_is_evaluated_as_with_images_in_memory(environment, order):
    study = parse_study(STUDY.replace("ORDER", order))
    assert run_preflight_checks(study, environment) == ()
    (trial,) = list_planned_trial_specs(study)
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    (evaluations,) = (message.evaluations for message in sent if isinstance(message, EvaluationDone))
    checkpoint = next(message.checkpoint for message in sent if isinstance(message, TrainingDone))
    sizes = {evaluation.key.split: evaluation.n for evaluation in evaluations}
    assert sizes == {Split.VALIDATION: 4, Split.TEST: 6, Split.TRAIN: 4}
    with use_trained_network(trial, checkpoint, environment) as loaded:
        inputs, targets = loaded.data.splits[Split.TEST]
        in_memory = evaluate_split(
            loaded.network,
            iter_mini_batches_with_fillers(inputs[: len(inputs)], targets, 2),
            loaded.planned_inference_rows,
            loaded.populations_by_estimate_and_layer,
            split=Split.TEST,
            batch_size=2,
        )
    stored = [evaluation for evaluation in evaluations if evaluation.key.split is Split.TEST]
    assert [evaluation.loss for evaluation in stored] == [evaluation.loss for evaluation in in_memory]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("standardization: channel", "standardization: pixel", "set standardization to channel or none"),
        ("evaluation: {", "layers: {search: exact}\nevaluation: {", "layers"),
        ("splits: [train]", "conditions: [fog-3], splits: [train]", "evaluation: conditions"),
        ("name: imagenet", "name: cifar10", "resized_crop is for imagenet"),
        ("resized_crop: true", "resized_crop: true, crop: 4", "exclude each other"),
    ],
)
def test_what_needs_all_images_in_memory_is_refused(old, new, message):
    found = problems(STUDY.replace("ORDER", "fixed").replace(old, new))
    assert any(message in problem for problem in found)
