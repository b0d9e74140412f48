"""A blended row of a study is exported with its weight, and loaded with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import bln_search
from bln_search.api.export.study_export import export_trained_row
from bln_search.core.blend import PopulationWeight
from bln_search.core.checkpoints import FolderStore
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.norms.network.layers import get_norms_by_name
from tests.api.export.forms import forms_of
from tests.api.trained import DIGITS, row_of, train

pytestmark = pytest.mark.xdist_group("blended export")
WEIGHTS = {"0.25": PopulationWeight(0.25), "N16": PopulationWeight(16, is_prior=True)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    evaluation = "{blends: [0.25, N16]}"
    return folder, train(folder, "{name: mlp, widths: [16]}", "{method: bln}", evaluation)


def of_weight(trained, weight):
    """The trained study with the evaluations of one blend, and of rows without a population."""
    study, trial, checkpoint, evaluations = trained
    label = f"frozen@{weight}"
    return study, trial, checkpoint, [item for item in evaluations if item.key.estimate == label]


@pytest.mark.parametrize("weight", ["0.25", pytest.param("N16", marks=pytest.mark.slow)])
def test_every_form_has_the_weight_at_every_size(trained, weight, tmp_path):
    folder, study = trained
    row, test = row_of(of_weight(study, weight), "BBFF")
    description, parity = export_trained_row(row, FolderStore(folder), DIGITS, tmp_path / "out")
    assert (description.format, description.row.estimate) == (3, f"frozen@{weight}")
    assert not description.row.deterministic
    assert not description.folded
    assert parity.largest_difference <= 1e-5
    loaded, forms = bln_search.load(tmp_path / "out"), forms_of(tmp_path / "out")
    assert {layer.blend for layer in get_norms_by_name(loaded).values()} == {WEIGHTS[weight]}
    for size in (1, 7, 25):
        x = torch.from_numpy(DIGITS.train_inputs[:size]).float()
        with torch.no_grad():
            for run in forms:
                torch.testing.assert_close(run(x), loaded(x), rtol=0, atol=1e-5)
    inputs, targets = torch.from_numpy(DIGITS.test_inputs), torch.from_numpy(DIGITS.test_labels)
    with torch.no_grad():
        losses = [
            F.cross_entropy(loaded(x)[: len(y)], y, reduction="none")
            for x, y in iter_mini_batches_with_fillers(inputs, targets, 25)
        ]
    np.testing.assert_allclose(torch.cat(losses).double().mean().item(), test.loss, rtol=0, atol=1e-6)
