"""The figures of a model card are those of the exported program on the test split."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.api.export.study_export import export_trained_row
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ExportFormat
from bln_search.core.errors import ExportError
from bln_search.data import load_data_set
from tests.api.trained import DIGITS, STUDY, row_of, train
from tests.support.tiers import thinned

BATCH_SIZE = 25
FAST_FORMS = frozenset({ExportFormat.TORCH_EXPORT})
MLP, BLN = "{name: mlp, widths: [8]}", "{method: bln}"
REGRESSION = STUDY.replace("digits, fraction: 0.3, validation: 150", "diabetes, validation: 100")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def classes(folder):
    return train(folder, MLP, BLN)


def export(row, data, folder, target, forms=FAST_FORMS):
    _, parity = export_trained_row(row, FolderStore(folder), data, target, forms=forms)
    stored = json.loads((target / "parity.json").read_text())["test"]
    assert (parity.test.loss, parity.test.accuracy) == (stored["loss"], stored["accuracy"])
    return stored


def outputs_in_mini_batches(target, inputs):
    """The outputs of the program for every example; the last mini-batch is filled with the first examples."""
    program = torch.export.load(target / "model.pt2").module()
    n = len(inputs)
    filled = torch.from_numpy(np.concatenate([inputs, inputs[: -n % BATCH_SIZE]])).float()
    return torch.cat([program(batch) for batch in filled.split(BATCH_SIZE)])[:n]


@pytest.mark.parametrize("code", thinned(["TTTT", "FFFF", "FTFT"], 2))
def test_figures_are_those_of_the_program_and_of_the_table(classes, folder, tmp_path, code):
    row, evaluation = row_of(classes, code)
    test = export(row, DIGITS, folder, tmp_path / "out")
    logits, labels = outputs_in_mini_batches(tmp_path / "out", DIGITS.test_inputs), torch.from_numpy(DIGITS.test_labels)
    assert test["loss"] == pytest.approx(F.cross_entropy(logits.double(), labels).item(), rel=1e-6)
    assert test["accuracy"] == pytest.approx((logits.argmax(1) == labels).double().mean().item())
    assert test["loss"] == pytest.approx(evaluation.loss, rel=1e-5)
    assert (test["examples"], test["batch_size"]) == (len(labels), BATCH_SIZE)
    readme = (tmp_path / "out" / "README.md").read_text()
    assert f"{len(labels)} examples of the test split: loss {test['loss']:.4f}" in readme


def test_figures_of_a_regression_are_those_of_standardized_targets(folder, tmp_path):
    data = load_data_set("diabetes", tmp_path)
    row, evaluation = row_of(train(folder, MLP, BLN, data=data, text=REGRESSION), "TTTT")
    test = export(row, data, folder, tmp_path / "out")
    assert test["loss"] == pytest.approx(evaluation.loss, rel=1e-5)
    assert test["accuracy"] is None


@pytest.mark.parametrize("form", [ExportFormat.SAFETENSORS, ExportFormat.TORCH_EXPORT])
def test_the_form_that_is_written_is_evaluated(classes, folder, tmp_path, form):
    row, evaluation = row_of(classes, "TTTT")
    test = export(row, DIGITS, folder, tmp_path / "out", frozenset({form}))
    assert test["loss"] == pytest.approx(evaluation.loss, rel=1e-5)


@pytest.mark.parametrize("difference", thinned([0.4, -0.4, 0.01, float("nan")], 2, start=1))
def test_a_program_with_another_loss_than_the_table_is_not_written(classes, folder, tmp_path, difference):
    row, evaluation = row_of(classes, "TTTT")
    figure = row.figures.this_seed["test"].model_copy(update={"loss": evaluation.loss + difference})
    figures = row.figures.model_copy(update={"this_seed": {"test": figure}})
    with pytest.raises(ExportError, match=r"the exported program \(torch\.export\) has"):
        export(replace(row, figures=figures), DIGITS, folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_model_card_and_configuration_say_that_the_code_changed(classes, folder, tmp_path):
    row, _ = row_of(classes, "TTTT")
    export(row, DIGITS, folder, tmp_path / "plain")
    export(replace(row, code_changes=("own_parts.py changed.",)), DIGITS, folder, tmp_path / "changed")
    texts = [(tmp_path / name / "README.md").read_text() for name in ("plain", "changed")]
    assert ["own_parts.py changed." in text for text in texts] == [False, True]
    described = json.loads((tmp_path / "changed" / "configuration.json").read_text())
    assert described["origin"]["trained_with"]["code_changes"] == ["own_parts.py changed."]
