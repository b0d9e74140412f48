"""Encoders of torch compute a LayerNorm by themselves where they may; layers of ours are called."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from bln_search import BLN, apply_configuration, convert, evaluate_configurations


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
def test_converted_norms_of_an_encoder_are_evaluated_under_all_sixteen(layers):
    data = loader()
    network = convert(Classifier(layers), batch_size=10)
    ranked = evaluate_configurations(network, data, data)
    alone = evaluate_configurations(network, data, data, one_pass=False)
    assert len(ranked) == 16
    figures = {one.configuration: one.row.figures["validation"].loss.mean for one in alone}
    assert len({round(loss, 5) for loss in figures.values()}) > 4, "they make a difference"
    for one in ranked:
        assert one.row.figures["validation"].loss.mean == pytest.approx(figures[one.configuration], rel=1e-4)
        assert len(one.populations) == 2 * max(layers, 1) * one.configuration.uses_population
    for word in ("FFFF", "TTTT"):
        assert_called(apply_configuration(network, next(one for one in ranked if str(one.configuration) == word)))


def test_one_put_in_by_hand_is_called_too():
    network = Classifier()
    network.encoder.norm1, network.encoder.norm2 = BLN(8, batch_size=10), BLN(8, batch_size=10)
    assert_called(network)


def test_a_padding_mask_gives_no_nested_tensor():
    network = convert(Classifier(2), batch_size=10)
    x = network.embed(loader()[0][0])
    mask = torch.zeros(10, 7, dtype=torch.bool)
    mask[:, 5:] = True
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert network.encoder.eval()(x, src_key_padding_mask=mask).shape == x.shape
