"""Configurations of an own BN or BLN network with statistics from its weights are ranked, applied and exported."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.enums import Split
from tests.api.export.forms import forms_of
from tests.api.test_analytic_conversion import Residual
from tests.support.tiers import thinned


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
@pytest.mark.parametrize(("method", "number", "code"), thinned([("bn", 9, "AT--"), ("bln", 81, "FATA")], 2))
def test_rows_with_a_are_ranked_applied_and_exported(method, number, code, tmp_path):
    torch.manual_seed(0)
    network = bln_search.convert(Residual(), method=method)
    x, y = torch.randn(64, 3, 8, 8), torch.randint(3, (64,))
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    for inputs, _ in loader:
        network.train()(inputs)
    network.eval()
    moments = bln_search.estimate_from_weights(network, x[:16], (x.mean(0), x.var(0)))
    ranked = bln_search.evaluate_configurations(network, loader, loader, gathered={"analytic": moments})
    rows = {str(row.configuration): row for row in ranked if row.row.key.estimate in {None, "frozen"}}
    assert len(rows) == number
    configured = bln_search.apply_configuration(network, rows[code])
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(configured(inputs), targets) for inputs, targets in loader]
    loss = rows[code].row.metrics[Split.VALIDATION].loss.mean
    assert loss == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)
    report = bln_search.export(configured, tmp_path / code, example_inputs=x[:16])
    assert report.is_folded == ("F" not in code)
    for program in (bln_search.load(tmp_path / code), *forms_of(tmp_path / code)):
        with torch.no_grad():
            torch.testing.assert_close(program(x[:16]), configured(x[:16]), rtol=0, atol=1e-5)
