"""Encoders of torch have a fused path that skips LayerNorm modules; BLN layers in them are called."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from bln_search import apply_configuration, convert, evaluate_configurations, search_layers
from tests.support.tiers import thinned

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Classifier(nn.Module):
    def __init__(self, layers=0):
        super().__init__()
        encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.embed, self.head = nn.Linear(5, 8), nn.Linear(8, 2)
        self.encoder = nn.TransformerEncoder(encoder, layers) if layers else encoder

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(1))


def loader():
    torch.manual_seed(0)
    x = torch.randn(60, 7, 5)
    return list(zip(x.split(10), (x[:, 0, 0] > 0).long().split(10), strict=True))


def assert_called(network):
    """With gradients torch calls the layers, without it would not have to."""
    x = loader()[0][0]
    with torch.no_grad():
        without = network.eval()(x)
    torch.testing.assert_close(without, network(x).detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("layers", [0, 2])
def test_converted_encoder_has_all_sixteen_rows(layers):
    data = loader()
    network = convert(Classifier(layers), batch_size=10)
    ranked = evaluate_configurations(network, data, data)
    layer_by_layer = evaluate_configurations(network, data, data, one_pass=False)
    assert len(ranked) == 16
    figures = {row.configuration: row.row.metrics["validation"].loss.mean for row in layer_by_layer}
    assert len({round(loss, 5) for loss in figures.values()}) > 4, "they make a difference"
    for row in ranked:
        assert row.row.metrics["validation"].loss.mean == pytest.approx(figures[row.configuration], rel=1e-4)
        assert len(row.populations) == 2 * max(layers, 1) * row.configuration.uses_population
    for code in ("FFFF", "TTTT"):
        assert_called(apply_configuration(network, next(row for row in ranked if str(row.configuration) == code)))


def test_a_padding_mask_gives_no_nested_tensor():
    network = convert(Classifier(2), batch_size=10)
    x = network.embed(loader()[0][0])
    mask = torch.zeros(10, 7, dtype=torch.bool)
    mask[:, 5:] = True
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert network.encoder.eval()(x, src_key_padding_mask=mask).shape == x.shape


class Pooling(nn.Module):
    """Every position counts, padding too."""

    def __init__(self, *, norm=False, **encoder):
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 2)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8) if norm else None, **encoder)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens), src_key_padding_mask=tokens == 0).mean(1))


def tokens(aligned=True, seed=0):
    token_ids = torch.randint(1, 20, (10, 7), generator=torch.Generator().manual_seed(seed))
    token_ids[::2, 5:] = 0
    token_ids[1, 3:] = 0
    if not aligned:
        token_ids[4, 1] = 0
    return token_ids


def plain_and_converted(network):
    """A network with random norms in evaluation mode, as torch has it and converted."""
    for module in network.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    network = network.double().eval()
    return network, convert(copy.deepcopy(network), method="same")


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("encoder", [{}, {"enable_nested_tensor": False}, {"mask_check": True}])
def test_converted_encoder_treats_padding_as_torch(norm, aligned, encoder):
    plain, converted = plain_and_converted(Pooling(norm=norm, **encoder))
    x = tokens(aligned)

    def assert_as_before():
        torch.testing.assert_close(converted(x), plain(x), rtol=1e-10, atol=1e-10)

    with torch.no_grad():
        assert_as_before()
        zeros = converted(x)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            assert_as_before()
            outputs = converted(x)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert torch.equal(zeros, outputs) == (not aligned or "enable_nested_tensor" in encoder)
    assert_as_before()
    for network in (plain, converted):
        network.requires_grad_(False)
    assert_as_before()


@pytest.mark.parametrize("mask_check", thinned([True, False], 2))
def test_exported_encoder_equals_the_eager_encoder(mask_check):
    """torch's own encoder puts no zeros into an exported program if it checks the mask."""
    plain, converted = plain_and_converted(Pooling(norm=True, mask_check=mask_check))
    batch = torch.export.Dim("batch", min=1)
    with torch.no_grad():
        exported = torch.export.export(converted, (tokens(),), dynamic_shapes=({0: batch},)).module()
        for x in (tokens()[:7], tokens(aligned=False)[:7]):
            torch.testing.assert_close(exported(x), converted(x), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(exported(tokens()), plain(tokens()), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("aligned", thinned([0, 1, 2, 3], 2))
def test_padding_is_zero_in_one_pass_and_layer_by_layer(aligned):
    """Mini-batches of which some have their padding in the middle: these have no zeros."""
    network = plain_and_converted(Pooling(norm=True))[1]
    data = [(tokens(seed >= aligned, seed), torch.arange(10) % 2) for seed in range(4)]
    rows = evaluate_configurations(network, data, data)
    losses = {str(row.configuration): row.row.metrics["validation"].loss.mean for row in rows}
    ranked = search_layers(network, data, data)
    assert {row.configuration: row.loss for row in ranked.result.uniform} == pytest.approx(losses, rel=1e-8)
    with torch.no_grad():
        for row in rows:
            apply_configuration(network, row)
            expected = torch.cat([nn.functional.cross_entropy(network(x), y, reduction="none") for x, y in data]).mean()
            assert losses[str(row.configuration)] == pytest.approx(float(expected), rel=1e-8)
