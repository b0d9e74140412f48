"""Order embeddings against the NumPy recurrence, and their errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.data.input_shape import InputField
from bln_search.data.inputs import make_structured_inputs
from bln_search.models import build_model
from bln_search.norms import make_norm
from tests.models.recurrent.oracle import gru, layer_norm_of

VOCABULARY = 9
SHAPE = {"image": InputField((1, 6, 9), torch.float32), "caption": InputField((5,), torch.int64)}


def make_network(method="ln", **options):
    """A network in double precision and evaluation mode whose every parameter is random."""
    sizes = {"widths": [2, 3, 4], "embedding": 2, **options}
    norm = partial(make_norm, method, batch_size=4)
    network = build_model("order_embeddings", SHAPE, 0, norm, seed=0, options=sizes, vocabulary=VOCABULARY)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.double().eval().parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return network


def make_inputs(examples=3):
    generator = torch.Generator().manual_seed(2)
    captions = torch.randint(1, VOCABULARY, (examples, 5), generator=generator)
    captions[1, 3:] = 0
    images = torch.randn(examples, 1, 6, 9, generator=generator, dtype=torch.float64)
    return make_structured_inputs({"image": images, "caption": captions}, examples)


def normalized(values):
    return np.abs(values) / np.linalg.norm(values, axis=1, keepdims=True)


def test_embeddings_equal_convolutions_and_recurrence():
    network, inputs = make_network(), make_inputs()
    embeddings = network(inputs).detach().numpy()

    first, second = network.convolutions[0], network.convolutions[2]
    channels = F.conv2d(inputs["image"], first.weight, first.bias, stride=2, padding=2).relu()
    channels = F.conv2d(channels, second.weight, second.bias, stride=2, padding=2).relu()
    projected = channels.flatten(1) @ network.image_projection.weight.T + network.image_projection.bias
    np.testing.assert_allclose(embeddings[:, 0], normalized(projected.detach().numpy()), rtol=1e-10)

    layer = network.caption
    weights = {name: getattr(layer, name).detach().numpy() for name in ("weight_input", "weight_hidden")}
    weights["bias"] = np.zeros(len(weights["weight_input"])) if layer.bias is None else layer.bias.detach().numpy()
    for example, token_ids in enumerate(inputs["caption"]):
        words = network.embedding.weight[token_ids[token_ids > 0]].detach().numpy()[None]
        states = gru(weights, words, layer_norm_of(layer))
        np.testing.assert_allclose(embeddings[example, 1], normalized(states[:, -1])[0], rtol=1e-9)


@pytest.mark.parametrize("method", ["none", "bn", "bln"])
def test_embeddings_are_unit_vectors_without_negative_coordinates(method):
    embeddings = make_network(method)(make_inputs(4)).detach()
    assert embeddings.shape == (4, 2, 4)
    assert (embeddings >= 0).all()
    torch.testing.assert_close(embeddings.norm(dim=2), torch.ones(4, 2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("shape", "vocabulary", "options", "message"),
    [
        ((1, 6, 9), 9, {}, "several inputs"),
        ({"image": SHAPE["image"]}, 9, {}, "choose the data mnist_pair_captions"),
        (SHAPE, None, {}, "no vocabulary"),
        (SHAPE, 9, {"widths": [3, 4]}, "three widths"),
    ],
)
def test_wrong_arguments_are_an_error(shape, vocabulary, options, message):
    norm = partial(make_norm, "ln")
    with pytest.raises(ModelError, match=message):
        build_model("order_embeddings", shape, 0, norm, seed=0, options=options, vocabulary=vocabulary)
