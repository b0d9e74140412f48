"""Every form of an export has the outputs of the network in its study."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import bln_search
from bln_search.api.export.study_export import export_trained_row
from bln_search.api.export.writing import ExportPlan
from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import ExportError
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.norms.network.layers import get_norms_by_name
from tests.api.export.exported_rows import FOLDED, ROWS
from tests.api.export.forms import forms_of
from tests.api.trained import DIGITS, row_of, train

pytestmark = pytest.mark.xdist_group("export")  # the exports are made once


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_every_form_equals_the_loaded_network_at_every_size(name, code, exported):
    target, _, data = exported(name, code)
    loaded, forms = bln_search.load(target), forms_of(target)
    reported = json.loads((target / "parity.json").read_text())
    assert [size["batch_size"] for size in reported["sizes"]] == [1, 25, 100]
    assert reported["largest_difference"] <= 1e-5
    for batch_size in (1, 2, 25, 100):
        x = torch.from_numpy(data.train_inputs[:batch_size]).float()
        with torch.no_grad():
            expected = loaded(x)
            assert expected.shape == (batch_size, 10)
            for run in forms:
                torch.testing.assert_close(run(x), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_the_loaded_network_has_the_losses_of_the_study(name, code, exported):
    target, test, data = exported(name, code)
    loaded = bln_search.load(target)
    assert not loaded.training
    inputs, targets = torch.from_numpy(data.test_inputs), torch.from_numpy(data.test_labels)
    with torch.no_grad():
        losses = [
            F.cross_entropy(loaded(x)[: len(y)], y, reduction="none")
            for x, y in iter_mini_batches_with_fillers(inputs, targets, 25)
        ]
    np.testing.assert_allclose(torch.cat(losses).double().mean().item(), test.loss, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_row_of_population_values_is_folded_and_documented(name, code, exported):
    target, _, _ = exported(name, code)
    document = json.loads((target / "configuration.json").read_text())
    assert document["folded"] == (code in FOLDED)
    operations = {str(node.target) for node in torch.export.load(target / "model.pt2").graph.nodes}
    assert any("sqrt" in operation for operation in operations) != (code in FOLDED)
    compared = json.loads((target / "parity.json").read_text())["sizes"][0]["differences"]
    assert ("folded" in compared) == (code in FOLDED)
    text = (target / "README.md").read_text()
    assert ("one affine step y = x·scale + shift" in text) == (code in FOLDED)
    assert ("depends on the other examples" in text) == document["row"]["configuration"].startswith("F")


def test_unread_population_values_are_not_exported(exported):
    target, _, _ = exported("mlp reference", "FTFT")
    layers = get_norms_by_name(bln_search.load(target).network).values()
    for layer in layers:
        assert layer.population_batch_mean is None
        assert layer.population_feature_mean is None
        assert layer.population_batch_deviation is not None
        assert str(layer.configuration) == "FTFT"


def test_inaccurate_affine_steps_are_not_folded(networks, tmp_path, monkeypatch):
    checkpoints, trained, data = networks("mlp paper")
    compare = ExportPlan.compare

    def compare_with_error(plan, forms):
        return compare(plan, {"folded": lambda x: plan.network(x) + 1e-3} if forms.keys() == {"folded"} else forms)

    monkeypatch.setattr(ExportPlan, "compare", compare_with_error)
    description, parity = export_trained_row(row_of(trained, "TTTT")[0], checkpoints, data, tmp_path / "out")
    assert not description.folded
    assert "differ from the layers by 0.001" in description.not_folded_because
    assert parity.largest_difference <= 1e-5


@pytest.mark.slow
def test_per_slot_values_limit_the_mini_batch_size(tmp_path):
    trained = train(tmp_path, "{name: mlp, widths: [8]}", "{method: bln}", "{per_slot: true, batch_sizes: [25, 40]}")
    export_trained_row(row_of(trained, "TTTT")[0], FolderStore(tmp_path), DIGITS, tmp_path / "out")
    document = json.loads((tmp_path / "out" / "configuration.json").read_text())
    assert (document["row"]["largest_batch_size"], document["folded"]) == (25, False)
    assert "25 slots" in document["not_folded_because"]
    sizes = json.loads((tmp_path / "out" / "parity.json").read_text())["sizes"]
    assert [bool(size["differences"]) for size in sizes] == [True, True, False]
    assert "a mini-batch of 100 has more" in sizes[2]["reason"]
    assert "at most 25 examples" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(ExportError, match="is undefined, so it cannot be exported: the feature population"):
        export_trained_row(row_of(trained, "TTTT", 40)[0], FolderStore(tmp_path), DIGITS, tmp_path / "none")
    assert not (tmp_path / "none").exists()
