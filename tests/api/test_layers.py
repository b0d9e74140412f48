"""Per-layer searches of a network of the user."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.evaluation.tree.verification import plain_pass_losses
from bln_search.models import MLP
from bln_search.norms import BLN, BN
from bln_search.norms.network_layers import evaluation_mode
from tests.api.own_network import make_loader

SIZE = 10


def network(widths=(9, 8)):
    torch.manual_seed(0)
    return MLP((6,), 4, partial(BLN, batch_size=SIZE), widths=widths)


def loader(n, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 6, generator=generator)
    return DataLoader(TensorDataset(inputs, inputs[:, :4].argmax(1)), batch_size=SIZE)


def test_best_configuration_can_be_applied():
    model = network()
    ranked = bln_search.search_layers(model, loader(60, 0), loader(45, 1), test_loader=loader(30, 2))
    assert ranked.result.size == "256"
    losses = ranked.record.sums.mean_loss
    assert ranked.result.rows[0].loss == losses.min()
    assert str(ranked.best) == ranked.result.rows[0].configuration
    bln_search.apply_configuration(model, ranked.best)
    total = 0.0
    with torch.no_grad(), evaluation_mode(model):
        batches = list(loader(45, 1))
        first = batches[0][0]
        for x, y in batches:
            filled = torch.cat([x, first[: SIZE - len(x)]])
            total += float(torch.nn.functional.cross_entropy(model(filled)[: len(y)], y, reduction="sum"))
    assert total / 45 == pytest.approx(ranked.result.rows[0].loss, rel=1e-5)
    state = network()
    state.load_state_dict(model.state_dict())
    assert [str(layer.configuration) for layer in bln_search_layers(state)] == str(ranked.best).split(".")


def bln_search_layers(model):
    return [module for module in model.modules() if isinstance(module, BLN)]


def test_result_prints_as_a_table_with_its_validation():
    text = str(bln_search.search_layers(network(), loader(60, 0), loader(40, 1)))
    assert "in all layers" in text
    assert "2-fold cross-validation" in text


@pytest.mark.parametrize(
    "search", ["beam", "coordinate", pytest.param("tpe", marks=pytest.mark.slow), "racing", "random"]
)
def test_searches_find_the_optimum_of_a_small_space(search):
    exact = bln_search.search_layers(network(), loader(60, 0), loader(60, 1))
    layered = bln_search.search_layers(network(), loader(60, 0), loader(60, 1), search=search, evaluations=200)
    order = np.sort(exact.record.sums.mean_loss)
    assert layered.result.rows[0].loss <= order[12] + 1e-9
    assert not layered.result.marginal


def test_layers_can_be_tied_and_configurations_parsed():
    model = network((9, 8, 7))
    groups = {"early": ["layers.3", "layers.6"]}
    ranked = bln_search.search_layers(model, loader(60, 0), loader(40, 1), groups=groups)
    assert ranked.result.size == "256"
    codes = str(ranked.best).split(".")
    assert codes[0] == codes[1]
    chosen = ranked.of(PerLayerConfiguration.parse("TTTT.TTTT.FFFF"))
    bln_search.apply_configuration(model, chosen)
    assert [str(layer.configuration) for layer in bln_search_layers(model)] == ["TTTT", "TTTT", "FFFF"]
    bln_search.apply_configuration(model, "FFFF.FFFF.FFFF")
    with pytest.raises(ModelError, match="for 2 layers, the network has 3"):
        bln_search.apply_configuration(model, "FFFF.FFFF")
    with pytest.raises(ModelError, match="'TTXT' is not an inference configuration"):
        bln_search.apply_configuration(model, "FFFF.TTXT.FFFF")
    assert [str(layer.configuration) for layer in bln_search_layers(model)] == ["FFFF"] * 3
    with pytest.raises(ModelError, match="not the network that was evaluated"):
        bln_search.apply_configuration(network(), chosen)


def test_impossible_arguments_are_rejected():
    with pytest.raises(DataError, match="validation_loader yields no mini-batch"):
        bln_search.search_layers(network(), loader(60, 0), [])
    with pytest.raises(DataError, match=r"2 folds of 1 mini-batches.*; make the .*with evaluate_configurations"):
        bln_search.search_layers(network(), loader(60, 0), loader(10, 1))
    with pytest.raises(DataError, match=r"5 folds of 3 mini-batches.*; lower `folds` to 3, or make"):
        bln_search.search_layers(network(), loader(60, 0), loader(30, 1), folds=5)
    with pytest.raises(DataError, match="no population estimate epoch: there are frozen"):
        bln_search.search_layers(network(), loader(60, 0), loader(40, 1), estimate="epoch")


def by_the_largest(network, x):
    x = torch.relu(network.norm(network.first(x)))
    return network.last(x / x.amax(0, keepdim=True))


def centred_first(network, x):
    """What BN takes away again where its mean is that of the mini-batch."""
    return network.last(torch.relu(network.norm(network.first(x - x.mean(0)))))


@pytest.mark.parametrize("search", ["exact", "coordinate"])
@pytest.mark.parametrize(("norm", "forward"), [(BLN, by_the_largest), (BN, by_the_largest), (BN, centred_first)])
def test_every_search_rejects_layers_that_mix_examples(norm, forward, search):
    class Mixing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = torch.nn.Linear(6, 8), norm(8, batch_size=SIZE), torch.nn.Linear(8, 4)

    Mixing.forward = forward
    with pytest.raises(ModelError, match="does not treat examples independently"):
        bln_search.search_layers(Mixing(), loader(60, 0), loader(40, 1), search=search)


def test_plain_passes_agree():
    model = network()
    ranked = bln_search.search_layers(model, loader(60, 0), loader(40, 1))
    populations = {
        layer: ranked.populations[name] for name, layer in model.named_modules() if name in ranked.populations
    }
    tree = TreeEvaluator(model, list(loader(40, 1)), populations)
    configuration = PerLayerConfiguration.parse("TFTF.FTTF")
    index = ranked.record.space.index(ranked.record.space.digits(configuration))
    expected = float(plain_pass_losses(tree, configuration, tree.batches).double().mean())
    assert ranked.record.sums.mean_loss[index] == pytest.approx(expected, rel=1e-5)


def of_sizes(*sizes, features=6):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(size, features, generator=generator) for size in sizes]
    return [(x, x[:, :4].argmax(1)) for x in inputs]


@pytest.mark.parametrize("judge", [bln_search.search_layers, bln_search.evaluate_configurations])
def test_larger_mini_batch_after_a_smaller_one_is_rejected(judge):
    """Its examples would be reported at the size of the first."""
    with pytest.raises(DataError, match="20 examples follows one of 10"):
        judge(network(), loader(60, 0), of_sizes(10, 10, 20, 10))


class Pooled(torch.nn.Module):
    """Images of any size."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution, self.norm, self.last = torch.nn.Conv2d(1, 4, 3), BN(4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.norm(self.convolution(x)).relu().mean((2, 3)))


def test_images_of_several_sizes_are_evaluated():
    train = [(torch.randn(10, 1, 8, 8), torch.randint(2, (10,))) for _ in range(3)]
    mixed = [*train, (torch.randn(10, 1, 12, 12), torch.randint(2, (10,)))]
    ranked = bln_search.search_layers(Pooled(), train, mixed)
    one_pass_table = bln_search.evaluate_configurations(Pooled(), train, mixed)
    uniform = {row.configuration: row.loss for row in ranked.result.uniform}
    assert len(uniform) == len(one_pass_table.board.rows) == 4
    for row in one_pass_table.board.rows:
        loss = row.metrics[Split.VALIDATION].loss.mean
        assert uniform[str(row.configuration)] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("without_final_norm", [False, True])
def test_norms_inside_the_encoder_of_torch_are_searched(without_final_norm):
    torch.manual_seed(0)
    inner = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(inner, 1, norm=None if without_final_norm else torch.nn.LayerNorm(8))
    model = torch.nn.Sequential(encoder, torch.nn.Flatten(), torch.nn.Linear(24, 2))
    model = bln_search.convert(model, method="same")
    data = [(torch.randn(10, 3, 8), torch.randint(2, (10,))) for _ in range(4)]
    ranked = bln_search.search_layers(model, data, data)
    norms = ["0.layers.0.norm1", "0.layers.0.norm2", *([] if without_final_norm else ["0.norm"])]
    assert list(ranked.record.space.layers) == norms
    one_pass_table = bln_search.evaluate_configurations(model, data, data)
    uniform = {row.configuration: row.loss for row in ranked.result.uniform}
    for row in one_pass_table.board.rows:
        assert uniform[str(row.configuration)] == pytest.approx(row.metrics[Split.VALIDATION].loss.mean, rel=1e-5)


def test_configuration_undefined_on_test_has_no_test_figure():
    reference = MLP((6,), 4, partial(BLN, batch_size=30, semantics="reference"), widths=(9, 8))
    undefined_count = 0
    for seed in range(4):
        torch.manual_seed(seed)
        for layer in reference.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.reset_parameters()
        test = of_sizes(30, 30)
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            ranked = bln_search.search_layers(
                reference, loader(60, seed), loader(40, 1), test_loader=test, per_slot=True
            )
        assert (ranked.record.test is None) == bool(caught_warnings)
        undefined_count += bool(caught_warnings)
        assert all(
            "no figures on test, where mini-batches have 30 examples" in str(warning.message)
            for warning in caught_warnings
        )
    assert undefined_count


def test_target_that_is_no_class_is_one_clear_error():
    numbered_from_one = [(x, y + 1) for x, y in of_sizes(10, 10, 10)]
    with pytest.raises(DataError, match="a target is class 4, the network has 4 outputs"):
        bln_search.search_layers(network(), loader(60, 0), numbered_from_one)


def test_a_network_in_bfloat16_is_searched():
    half = [(x.bfloat16(), y) for x, y in of_sizes(10, 10, 10)]
    ranked = bln_search.search_layers(network().bfloat16(), half, half)
    assert len(ranked.record.outcomes) == 256


def test_evaluations_must_cover_the_uniform_configurations():
    four = bln_search.convert(torch.nn.Sequential(*normed(3)), method="same")
    layered = bln_search.search_layers(four, loader(60, 0), loader(40, 1), search="coordinate", evaluations=4)
    assert layered.record.evaluations == pytest.approx(4)
    with pytest.raises(ValueError, match="evaluations: must be at least 4,"):
        bln_search.search_layers(four, loader(60, 0), loader(40, 1), search="beam", evaluations=3)
    with pytest.raises(ValueError, match="at least 16,"):
        bln_search.search_layers(network(), loader(60, 0), loader(40, 1), search="tpe", evaluations=15)
    for nonsense in (0, -1, 1_000_001, "many"):
        with pytest.raises(ValueError, match="evaluations: must be"):
            bln_search.search_layers(four, loader(60, 0), loader(40, 1), search="beam", evaluations=nonsense)


def normed(layers, norm=torch.nn.BatchNorm1d):
    torch.manual_seed(0)
    for _ in range(layers):
        yield from (torch.nn.Linear(6, 6), norm(6), torch.nn.Tanh())


class Branching(torch.nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.sum() != 0 else -x)


@pytest.mark.parametrize(
    ("kind", "layers", "method", "evaluations", "expected"),
    [
        (torch.nn.Sequential, 5, "same", 64, "exact"),
        (torch.nn.Sequential, 7, "bln", 40, "coordinate"),
        (Branching, 3, "same", 64, "exact"),
        (Branching, 3, "same", 63, "coordinate"),
    ],
)
def test_small_spaces_are_enumerated_by_default(kind, layers, method, evaluations, expected):
    model = bln_search.convert(kind(*normed(layers)), method=method, batch_size=SIZE)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        layered = bln_search.search_layers(model, loader(60, 0), loader(40, 1), evaluations=evaluations)
    assert layered.result.search == expected
    assert [str(warning.message).endswith("takes longer") for warning in caught_warnings] == [True] * (
        kind is Branching
    )


@pytest.mark.parametrize(
    "search",
    [
        "exact",
        "coordinate",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("beam", "tpe", "racing", "random")),
    ],
)
def test_branching_network_is_searched_like_a_sequential_one(search):
    sequential, branching = (
        bln_search.convert(kind(*normed(2)), method="same") for kind in (torch.nn.Sequential, Branching)
    )
    options = {"search": search, "evaluations": 16, "test_loader": loader(30, 2)}
    expected = bln_search.search_layers(sequential, loader(60, 0), loader(45, 1), **options)
    with pytest.warns(UserWarning, match="evaluated one by one"):
        layered = bln_search.search_layers(branching, loader(60, 0), loader(45, 1), **options)
    assert [row.configuration for row in layered.result.rows] == [row.configuration for row in expected.result.rows]
    np.testing.assert_allclose(layered.record.confirmed.losses, expected.record.confirmed.losses, rtol=1e-5)
    np.testing.assert_allclose(layered.record.test, expected.record.test, rtol=1e-5)
    bln_search.apply_configuration(branching, layered.best)
    bln_search.apply_configuration(branching, "FF--.FF--")
    with pytest.raises(ModelError, match=r"FF--\.TF-- cannot be applied: apply the result of search_layers"):
        bln_search.apply_configuration(branching, "FF--.TF--")


@pytest.mark.parametrize(("kind", "layers", "limit"), [(torch.nn.Sequential, 7, "16,777,216"), (Branching, 4, "4,096")])
@pytest.mark.filterwarnings("ignore:the forward pass of this Branching")
def test_too_many_configurations_name_the_argument_to_change(kind, layers, limit):
    model = bln_search.convert(kind(*normed(layers)), batch_size=SIZE)
    with pytest.raises(
        ModelError, match=rf'{16**layers:,} .* {limit} .*use search="coordinate" or search="beam", .*groups='
    ):
        bln_search.search_layers(model, loader(60, 0), loader(40, 1), search="exact")


@pytest.mark.parametrize("search", ["exact", "coordinate"])
def test_best_independent_has_the_lowest_loss_of_its_kind(search):
    layered = bln_search.search_layers(network(), loader(60, 0), loader(60, 1), search=search, evaluations=100)
    space, sums = layered.record.space, layered.record.sums
    digits = [space.digits_at(index) for index in range(space.size)] if sums.digits is None else sums.digits.tolist()
    losses = {
        str(configuration): loss
        for configuration, loss in zip(map(space.configuration, digits), sums.mean_loss, strict=True)
        if configuration.is_deterministic
    }
    assert len(losses) >= 4
    best = layered.best_independent
    assert best.configuration.is_deterministic
    assert losses[str(best)] == min(losses.values())
    bln_search.apply_configuration(network(), best)


def test_layered_results_are_shown_short_in_a_debugger_and_as_a_table_in_a_notebook():
    layered = bln_search.search_layers(network(), loader(60, 0), loader(40, 1))
    best = layered.result.rows[0]
    assert (
        repr(layered)
        == f"<RankedLayers: exact search of 256 configurations, best {best.configuration} {best.loss:.4f}>"
    )
    assert repr(layered.best) == f"<LayeredConfiguration: {best.configuration}>"
    html = layered._repr_html_()
    assert f'<td style="text-align: left">{best.configuration}</td>' in html
    assert "-fold cross-validation" in html


def test_advice_names_no_argument_that_the_search_lacks():
    """A tensor without examples on its first axis, from before the first layer, meets one from after it."""

    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.norm, self.second = nn.Linear(6, 8), bln_search.BLN(8, batch_size=10), bln_search.BLN(8)
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            y = self.first(x)
            windows = self.norm(y).reshape(-1, 4) + y.reshape(-1, 4)
            return self.head(self.second(windows.reshape(-1, 8)))

    data = make_loader()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layered = bln_search.search_layers(Windows(), data, data, search="coordinate", evaluations=40)
    texts = [str(warning.message) for warning in caught]
    assert any("evaluated one by one" in text for text in texts)
    assert not any("one_pass" in text for text in texts)
    applied = bln_search.apply_configuration(Windows(), layered.best).eval()
    with torch.no_grad():
        losses = torch.cat([nn.functional.cross_entropy(applied(x), y, reduction="none") for x, y in data])
    assert layered.result.rows[0].loss == pytest.approx(losses.mean().item(), rel=1e-5)
