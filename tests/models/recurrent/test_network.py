"""The recurrent network of the paper, with other cells and with normalization inside them."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.evaluation.timing import count_parameters
from bln_search.models import build_model
from bln_search.models.recurrent import LSTM, RecurrentLayer, RecurrentNetwork, TimeStepNorms
from bln_search.norms import BLN, LN, Normalization, make_norm

CELLS = ("lstm", "gru", "rnn")
PLACEMENTS = ("layers", "cells", "cells_and_layers")
SMALL = {"widths": (5, 4), "embedding": 6, "dense": 3}


def build(name="lstm", shape=(4, 2), classes=3, method="bln", vocabulary=None, **options):
    return build_model(
        name, shape, classes, partial(make_norm, method), seed=0, options={**SMALL, **options}, vocabulary=vocabulary
    )


def test_the_network_has_the_layers_of_the_paper():
    """Figure 5: embedding 512, LSTM 128 and 64 with dropouts of 0.2, dense 32, and one output for two classes."""
    network = build_model("lstm", (80,), 2, BLN, seed=0, vocabulary=20_000)
    layer_names = [type(module).__name__ for module in network.modules() if not list(module.children())]
    assert layer_names == ["Embedding", "LSTM", "LSTM", "BLN", "BLN", "Linear", "Tanh", "BLN", "Linear"]
    layers = [module for module in network.modules() if isinstance(module, LSTM)]
    assert [(layer.inputs, layer.units) for layer in layers] == [(512, 128), (128, 64)]
    assert {(layer.dropout, layer.recurrent_dropout) for layer in layers} == {(0.2, 0.2)}
    assert [norm.num_features for norm in network.modules() if isinstance(norm, Normalization)] == [128, 64, 32]
    recurrent_size = 4 * 128 * (512 + 128 + 1) + 4 * 64 * (128 + 64 + 1)
    dense_size = 64 * 32 + 32 + 32 + 1
    norms_size = 2 * (128 + 64 + 32)
    assert count_parameters(network) == 20_000 * 512 + recurrent_size + dense_size + norms_size


def test_the_last_norm_gets_the_last_state_only():
    network = build().eval()
    shapes = []
    for norm in network.norms:
        norm.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(inputs[0].shape)))
    x = torch.randn(7, 4, 2)
    logits = network(x)
    assert shapes == [(7, 4, 5), (7, 4)]
    sequence = network.norms[0](network.layers[0](x))
    last_state = network.norms[1](network.layers[1](sequence)[:, -1])
    torch.testing.assert_close(network.classifier(last_state), logits)


@pytest.mark.parametrize("normalize", PLACEMENTS)
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_supports_both_norm_placements(cell, normalize):
    network = build(cell, normalize=normalize)
    step_norms = [module for module in network.modules() if isinstance(module, TimeStepNorms)]
    norms = [module for module in network.modules() if isinstance(module, Normalization)]
    per_layer = {"rnn": 1, "lstm": 3, "gru": 4}[cell]
    inside, after = 2 * per_layer * (normalize != "layers"), 3 * (normalize != "cells")
    assert len(step_norms) == inside
    assert len(norms) == 4 * inside + after
    assert network(torch.randn(7, 4, 2)).shape == (7, 3)


def test_gain_sets_the_initial_gain_inside_cells():
    network = build(normalize="cells", gain=0.1)
    gains = {layer.weight.unique().item() for layer in network.modules() if isinstance(layer, Normalization)}
    assert list(gains) == pytest.approx([0.1])


@pytest.mark.parametrize("normalize", PLACEMENTS)
def test_two_classes_have_one_output_and_binary_cross_entropy(normalize):
    network = build(classes=2, normalize=normalize).eval()
    assert network.classifier[-1].out_features == 1
    x, targets = torch.randn(9, 4, 2), torch.randint(0, 2, (9,))
    logits = network(x)
    assert logits.shape == (9, 2)
    assert logits[:, 0].abs().max() == 0
    binary = F.binary_cross_entropy_with_logits(logits[:, 1], targets.float())
    torch.testing.assert_close(F.cross_entropy(logits, targets), binary)


@pytest.mark.parametrize("normalize", PLACEMENTS)
def test_the_rows_of_an_image_are_the_time_steps(normalize):
    """A network for sequences gives the same outputs for rows that are concatenated over channels."""
    image_network = build(shape=(3, 4, 2), normalize=normalize).eval()
    sequence_network = build(shape=(4, 6), normalize=normalize).eval()
    sequence_network.load_state_dict(image_network.state_dict())
    x = torch.randn(5, 3, 4, 2)
    rows = torch.stack([torch.cat([x[:, channel, row] for channel in range(3)], 1) for row in range(4)], 1)
    torch.testing.assert_close(image_network(x), sequence_network(rows))


@pytest.mark.parametrize("normalize", PLACEMENTS)
@pytest.mark.parametrize("cell", CELLS)
def test_token_ids_are_embedded(cell, normalize):
    network = build(cell, shape=(4,), vocabulary=11, normalize=normalize).eval()
    x = torch.randint(0, 11, (5, 4))
    assert network(x).shape == (5, 3)
    changed_x = x.clone()
    changed_x[0, 0] = (x[0, 0] + 1) % 11
    assert not torch.equal(network(changed_x), network(x))


@pytest.mark.parametrize("cell", CELLS)
def test_initial_weights_do_not_depend_on_norm_or_placement(cell):
    networks = [
        build(cell, shape=(4,), vocabulary=11, method=method, normalize=normalize)
        for method, normalize in [("bn", "layers"), ("bln", "layers"), ("ln", "cells"), ("bn", "cells")]
    ]
    parameters = [dict(network.named_parameters()) for network in networks]
    shared = [name for name in parameters[0] if ".weight_" in name or "classifier" in name or "embedding" in name]
    shared = [name for name in shared if all(name in named_parameters for named_parameters in parameters)]
    assert len(shared) == 9
    for name in shared:
        for named_parameters in parameters[1:]:
            assert torch.equal(parameters[0][name], named_parameters[name]), name


def test_recurrent_layers_draw_their_weights_from_the_seed():
    networks = [build_model("gru", (4, 2), 3, LN, seed=seed, options=SMALL) for seed in (0, 0, 1)]
    first, same_seed, other_seed = (
        next(module for module in network.modules() if isinstance(module, RecurrentLayer)) for network in networks
    )
    assert torch.equal(first.weight_hidden, same_seed.weight_hidden)
    assert not torch.equal(first.weight_hidden, other_seed.weight_hidden)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": ()}, "at least one unit, not"),
        ({"widths": (3, 0)}, "at least one unit, not"),
        ({"cell": "elman"}, "'elman': .* lstm, gru, rnn"),
        ({"normalize": "inside"}, "one of layers, cells, cell_output, cells_and_layers, not 'inside'"),
        ({"gain": 0.1}, "^gain .* set normalize to cells"),
        ({"longer_sequences": "refuse"}, "^longer_sequences .* set normalize to cells"),
        ({"cell": "gru", "normalize": "cell_output"}, "only an lstm .* not a gru"),
        ({"normalize": "cells", "gain": -1.0}, "above 0, not -1"),
        ({"input_shape": (5,)}, r"token ids \(T,\), .* not measurements \(5,\)"),
        ({"input_shape": (4, 2), "vocabulary": 7}, r"not token ids \(4, 2\)"),
        ({"dropout": 1.5}, "^dropout .* not 1.5"),
    ],
)
def test_impossible_network_options_are_an_error(options, message):
    with pytest.raises(ModelError, match=message):
        RecurrentNetwork(**{"input_shape": (4, 2), "classes": 3, "norm": lambda _: nn.Identity(), **options})


def test_token_ids_need_a_model_for_texts():
    with pytest.raises(ModelError, match=r"mlp .* gru, lstm, rnn"):
        build_model("mlp", (4,), 3, BLN, seed=0, vocabulary=7)


def test_dense_weights_selects_their_initialization():
    default = build_model("lstm", (4,), 2, BLN, seed=0, vocabulary=11)
    orthogonal = build_model("lstm", (4,), 2, BLN, seed=0, vocabulary=11, options={"dense_weights": "orthogonal"})
    glorot_weight, orthogonal_weight = (network.classifier[0].weight.detach() for network in (default, orthogonal))
    identity = torch.eye(len(orthogonal_weight))
    torch.testing.assert_close(orthogonal_weight @ orthogonal_weight.T, identity)
    assert not torch.allclose(glorot_weight @ glorot_weight.T, identity, atol=0.1)
    assert glorot_weight.abs().max() <= (6 / sum(glorot_weight.shape)) ** 0.5
    with pytest.raises(ModelError, match=r"dense_weights .* not normal"):
        build_model("lstm", (4,), 2, BLN, seed=0, vocabulary=11, options={"dense_weights": "normal"})
