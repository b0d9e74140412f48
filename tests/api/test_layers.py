"""Per-layer searches of a network of the user: what is found and applied, sizes of spaces, and branching networks."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

import bln_search
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.models import MLP
from bln_search.norms import BLN, BN
from bln_search.norms.network.layers import evaluation_mode
from bln_search.reports.sentences.per_layer import per_layer_sentences
from tests.api.layer_search import SIZE, loader, network, normed


def test_best_configuration_can_be_applied():
    model = network()
    ranked = bln_search.search_layers(model, loader(60, 0), loader(45, 1), test_loader=loader(30, 2))
    assert ranked.result.size == "256"
    losses = ranked.record.sums.mean_loss_per_configuration
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


def test_a_search_says_that_no_configuration_is_better_than_the_class_frequencies():
    targets = torch.cat([y for _, y in loader(45, 1)])
    model = network()
    with torch.no_grad():
        list(model.parameters())[-2].mul_(1000)
    ranked = bln_search.search_layers(model, loader(60, 0), loader(45, 1))
    assert ranked.result.class_prior.loss == pytest.approx(stats.entropy(targets.bincount()))
    assert ranked.result.rows[0].loss > ranked.result.class_prior.loss
    assert "No configuration is better than the class-prior baseline" in str(ranked)
    learned = ranked.result.model_copy(update={"class_prior": ClassPriorBaseline(1e6, 0.5)})
    assert "class-prior baseline" not in " ".join(per_layer_sentences(learned))


def test_layers_can_be_tied_and_configurations_parsed():
    model = network((9, 8, 7))
    groups = {"early": ["layers.3", "layers.6"]}
    ranked = bln_search.search_layers(model, loader(60, 0), loader(40, 1), groups=groups)
    assert ranked.result.size == "256"
    codes = str(ranked.best).split(".")
    assert codes[0] == codes[1]
    chosen = ranked.with_populations(PerLayerConfiguration.parse("TTTT.TTTT.FFFF"))
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


def of_sizes(*sizes, features=6):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(size, features, generator=generator) for size in sizes]
    return [(x, x[:, :4].argmax(1)) for x in inputs]


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


@pytest.mark.parametrize("judge", [bln_search.search_layers, bln_search.evaluate_configurations])
def test_larger_mini_batch_after_a_smaller_one_is_rejected(judge):
    """Its examples would be reported at the size of the first."""
    with pytest.raises(DataError, match="20 examples follows one of 10"):
        judge(network(), loader(60, 0), of_sizes(10, 10, 20, 10))


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
    digits = (
        [space.choice_digits_at_index(index) for index in range(space.num_configurations)]
        if sums.digits is None
        else sums.digits.tolist()
    )
    losses = {
        str(configuration): loss
        for configuration, loss in zip(
            map(space.configuration_of_choice_digits, digits), sums.mean_loss_per_configuration, strict=True
        )
        if configuration.is_deterministic
    }
    assert len(losses) >= 4
    best = layered.best_batch_independent
    assert best.configuration.is_deterministic
    assert losses[str(best)] == min(losses.values())
    bln_search.apply_configuration(network(), best)
