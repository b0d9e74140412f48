"""Skip-thoughts against the NumPy recurrences, and its errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search_papers.ln.imdb_sentences import SENTENCE_LENGTH
from tests.models.recurrent.oracle import gru, layer_norm_of

VOCABULARY, CLASSES = 9, 9


def make_network(method="ln", **options):
    """A network in double precision and evaluation mode whose every parameter is random."""
    sizes = {"widths": [3, 2], "embedding": 2, **options}
    norm = partial(make_norm, method, batch_size=4)
    shape = (3 * SENTENCE_LENGTH,)
    network = build_model("skip_thoughts", shape, CLASSES, norm, seed=0, options=sizes, vocabulary=VOCABULARY)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.double().eval().parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return network


def states(layer, inputs):
    weights = {name: getattr(layer, name).detach().numpy() for name in ("weight_input", "weight_hidden")}
    bias = np.zeros(len(weights["weight_input"])) if layer.bias is None else layer.bias.detach().numpy()
    return gru({**weights, "bias": bias}, inputs, layer_norm_of(layer))


def test_logits_equal_the_recurrences_of_encoder_and_decoders():
    network = make_network()
    token_ids = torch.randint(0, VOCABULARY, (2, 3 * SENTENCE_LENGTH), generator=torch.Generator().manual_seed(3))
    embedded = network.embedding.weight.detach().numpy()[token_ids.numpy()]
    middle, before, after = np.split(embedded, 3, axis=1)
    context = np.repeat(states(network.encoder, middle)[:, -1:], SENTENCE_LENGTH, axis=1)
    decoded = np.concatenate(
        [
            states(network.decoder_before, np.concatenate([before, context], 2)),
            states(network.decoder_after, np.concatenate([after, context], 2)),
        ],
        axis=1,
    )
    weight, bias = (value.detach().numpy() for value in (network.classifier.weight, network.classifier.bias))
    np.testing.assert_allclose(network(token_ids).detach().numpy(), decoded @ weight.T + bias, rtol=1e-9)
    vectors = network.encode(token_ids[:, :SENTENCE_LENGTH]).detach().numpy()
    np.testing.assert_allclose(vectors, context[:, 0], rtol=1e-9)


def test_a_prediction_does_not_depend_on_later_words():
    network = make_network()
    token_ids = torch.randint(0, VOCABULARY, (1, 3 * SENTENCE_LENGTH), generator=torch.Generator().manual_seed(3))
    changed = token_ids.clone()
    changed[:, SENTENCE_LENGTH + 5 : 2 * SENTENCE_LENGTH] = 1
    difference = (network(token_ids) - network(changed)).abs().sum(2)[0]
    assert (difference[:5] == 0).all()
    assert (difference[5:SENTENCE_LENGTH] > 0).any()
    assert (difference[SENTENCE_LENGTH:] == 0).all()


@pytest.mark.parametrize(
    ("shape", "vocabulary", "options", "message"),
    [
        ((80,), 10, {}, "choose the data imdb_sentences"),
        ((48,), None, {}, "choose the data imdb_sentences"),
        ((48,), 10, {"widths": [3]}, "two widths"),
    ],
)
def test_wrong_arguments_are_an_error(shape, vocabulary, options, message):
    with pytest.raises(ModelError, match=message):
        build_model("skip_thoughts", shape, 3, partial(make_norm, "ln"), seed=0, options=options, vocabulary=vocabulary)
