"""The attentive reader against a plain loop over words in double precision, and its errors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.data.texts import PADDING
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search_papers.ln.imdb_cloze import DOCUMENT_LENGTH, QUESTION_LENGTH
from tests.models.recurrent.oracle import layer_norm_of, lstm

LENGTH, VOCABULARY, CLASSES = QUESTION_LENGTH + DOCUMENT_LENGTH, 30, 4


def make_reader(method="ln", **options):
    """A network in double precision and evaluation mode whose every parameter is random."""
    sizes = {"widths": [3], "embedding": 2, **options}
    norm = partial(make_norm, method, batch_size=4) if method != "none" else partial(make_norm, "none")
    network = build_model("attentive_reader", (LENGTH,), CLASSES, norm, seed=0, options=sizes, vocabulary=VOCABULARY)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.double().eval().parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.3)
    return network


def make_questions(n=2, padding=70):
    token_ids = torch.randint(1, VOCABULARY, (n, LENGTH), generator=torch.Generator().manual_seed(3))
    token_ids[0, QUESTION_LENGTH : QUESTION_LENGTH + padding] = PADDING
    return token_ids


def states(layer, embedded):
    bias = layer.bias.detach().numpy()
    weights = {"weight_input": layer.weight_input, "weight_hidden": layer.weight_hidden}
    weights = {name: weight.detach().numpy() for name, weight in weights.items()}
    return lstm({**weights, "bias": bias}, embedded, layer_norm_of(layer))


def expected_logits(network, token_ids):
    """Logits of one question, by a loop over the words of its document."""
    parameters = {name: value.detach().numpy() for name, value in network.named_parameters()}
    embedded = parameters["embedding.weight"][token_ids.numpy()][None]
    question, document = embedded[:, :QUESTION_LENGTH], embedded[:, QUESTION_LENGTH:]
    asked = np.concatenate(
        [states(network.question, question)[0, -1], states(network.question_backward, question[:, ::-1])[0, -1]]
    )
    forward, backward = states(network.document, document)[0], states(network.document_backward, document[:, ::-1])[0]
    total, attended = 0.0, np.zeros_like(asked)
    for word in range(DOCUMENT_LENGTH):
        if token_ids[QUESTION_LENGTH + word] == PADDING:
            continue
        read = np.concatenate([forward[word], backward[DOCUMENT_LENGTH - 1 - word]])
        matched = np.tanh(
            parameters["match_document.weight"] @ read
            + parameters["match_question.weight"] @ asked
            + parameters["match_question.bias"]
        )
        weight = math.exp((parameters["score.weight"] @ matched)[0])
        total, attended = total + weight, attended + weight * read
    joined = np.tanh(
        parameters["join_document.weight"] @ (attended / total)
        + parameters["join_question.weight"] @ asked
        + parameters["join_question.bias"]
    )
    return parameters["classifier.weight"] @ joined + parameters["classifier.bias"]


def test_logits_equal_a_loop_over_the_words():
    network, token_ids = make_reader(), make_questions()
    expected = [expected_logits(network, ids) for ids in token_ids]
    np.testing.assert_allclose(network(token_ids).detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("normalize", ["cells", "cell_output"])
def test_norms_of_all_four_layers_are_trained(normalize):
    network = make_reader("bn", normalize=normalize, gain=0.1).train()
    network(make_questions(4)).square().sum().backward()
    gains = [parameter for name, parameter in network.named_parameters() if ".norm_" in name and "weight" in name]
    assert len(gains) == (12 if normalize == "cells" else 4)
    assert all(gain.grad is not None and gain.grad.abs().sum() > 0 for gain in gains)


@pytest.mark.parametrize(
    ("shape", "vocabulary", "options", "message"),
    [
        ((80,), 10, {}, "choose the data imdb_cloze"),
        ((LENGTH,), None, {}, "choose the data imdb_cloze"),
        ((LENGTH,), 10, {"widths": [3, 4]}, "one width"),
        ((LENGTH,), 10, {"normalize": "layers"}, "cells or cell_output"),
    ],
)
def test_wrong_arguments_are_an_error(shape, vocabulary, options, message):
    with pytest.raises(ModelError, match=message):
        build_model(
            "attentive_reader", shape, 3, partial(make_norm, "ln"), seed=0, options=options, vocabulary=vocabulary
        )
