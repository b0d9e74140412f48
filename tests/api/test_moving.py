"""`moving=` adds rows with moving statistics, whose losses are those of the applied row in the order of the data."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import BatchDependenceWarning
from tests.api.own_network import make_loader, make_network
from tests.api.shifted_data import make_data, trained

WEIGHTS = [0.9, "N16"]


def evaluate(network=None, loader=None, **options):
    loader = loader or make_loader(seed=1)
    return bln_search.evaluate_configurations(
        network or make_network(), make_loader(), loader, moving=WEIGHTS, progress=False, **options
    )


def applied(network, row):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchDependenceWarning)
        return bln_search.apply_configuration(copy.deepcopy(network), row).eval()


def losses_of(network, row, loader):
    configured = applied(network, row)
    with torch.no_grad():
        return torch.cat([nn.functional.cross_entropy(configured(x), y, reduction="none") for x, y in loader]).double()


def test_every_row_of_the_population_has_one_with_each_weight():
    ranked = evaluate(blends=[0.9])
    rows = {(str(row.configuration), row.row.estimate) for row in ranked}
    assert len(rows) == 1 + 15 * 4
    assert {code.replace("E", "T") for code, label in rows if label == "frozen@N16"} == {
        code for code, label in rows if label == "frozen"
    }
    assert {("EEEE", "frozen@0.9"), ("BBBB", "frozen@0.9")} <= rows


@pytest.mark.parametrize("options", [{}, {"one_pass": False}, {"per_slot": True}], ids=str)
def test_losses_are_those_of_the_applied_row_in_the_order_of_the_data(options):
    network, loader = make_network(), make_loader(seed=1)
    for row in evaluate(network, loader, **options):
        if row.configuration.is_moving:
            expected = float(losses_of(network, row, loader).mean())
            assert row.row.metrics[Split.VALIDATION].loss.mean == pytest.approx(expected, rel=1e-5)


def test_each_split_and_condition_begins_a_stream():
    loaders = [{name: make_loader(seed=1) for name in "ab"} for _ in range(2)]
    ranked = evaluate(loader=loaders[0], test_loader=loaders[1])
    for first, second in zip(ranked["a"].board.rows, ranked["b"].board.rows, strict=True):
        assert first.metrics == second.metrics
        assert first.metrics[Split.VALIDATION].loss.mean == first.metrics[Split.TEST].loss.mean


def test_stages_carry_the_streams():
    network, loader = trained(), make_data(480, scale=2.0, shift=1.0)
    rows = bln_search.evaluate_configurations(network, make_data(200, 1), loader, moving=[0.9], stop="decided")
    batches = list(loader)
    order = np.random.default_rng(0).permutation(len(batches))
    read = [batches[position] for position in order]
    row = next(row for row in rows if row.configuration.is_moving and row.row.rank is not None)
    examples = rows.staged_reading.examples
    losses = losses_of(network, row, read)[:examples]
    assert row.row.metrics[Split.VALIDATION].loss.mean == pytest.approx(float(losses.mean()), rel=1e-5)


def test_moving_rows_depend_on_the_mini_batch_and_say_so():
    network = make_network()
    row = next(row for row in evaluate(network) if row.configuration.is_moving)
    assert not row.is_independent
    with pytest.warns(BatchDependenceWarning, match="other examples and with earlier mini-batches"):
        bln_search.apply_configuration(network, row)


def test_applying_a_row_begins_a_stream_that_a_reset_begins_again():
    network, loader = make_network(), make_loader(seed=1)
    row = next(row for row in evaluate(network) if str(row.configuration) == "EEFF")
    configured, x = applied(network, row), next(iter(loader))[0]
    first, second = configured(x), configured(x)
    assert not torch.equal(first, second)
    bln_search.reset_stream(configured)
    assert torch.equal(configured(x), first)
    restored = make_network()
    restored.load_state_dict(configured.state_dict())
    assert torch.equal(restored.eval()(x), first)


def test_codes_with_letters_for_each_layer_apply_to_stored_populations():
    network, loader = make_network(), make_loader(seed=1)
    row = next(row for row in evaluate(network) if str(row.configuration) == "EEFF")
    configured = applied(network, row)
    per_layer = applied(configured, "EEFF.TTFF")
    assert [str(layer.configuration) for layer in (per_layer[2], per_layer[4])] == ["EEFF", "TTFF"]
    x = next(iter(loader))[0]
    assert not torch.equal(per_layer(x), per_layer(x))
