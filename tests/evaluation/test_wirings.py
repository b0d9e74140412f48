"""Wirings have the losses of an oracle in one pass, one by one and per layer, or are refused with the true reason."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest
import torch

import bln_search
from bln_search.api.evaluate import collect_estimates, split_batches
from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.evaluation.scoring import cross_entropy
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.norms import make_norm
from bln_search.norms.network_layers import find_norms, network_populations
from tests.evaluation.oracle import SOURCES, Oracle, OracleNorm, cut, filled
from tests.evaluation.wirings import CLASSES, WIRINGS, Wiring
from tests.norms import oracle as loops
from tests.support.tiers import latin

SEMANTICS = ("paper", "reference")
CASES = latin(tuple(WIRINGS), SEMANTICS)
DRAWN = 6
"""Per-layer configurations of each wiring that are compared."""


@dataclass
class Case:
    """A wiring with layers of bln_search and with those of the oracle, and its mini-batches."""

    wiring: Wiring
    network: torch.nn.Module
    oracle: Oracle
    train: list
    validation: list
    expected: dict

    def handed(self, batches):
        return self.wiring.loader(batches)


@cache
def case(name, semantics):
    wiring = WIRINGS[name]
    network = network_of(wiring, partial(layer_of, semantics=semantics))
    oracle = Oracle(network_of(wiring, partial(OracleNorm, semantics=semantics, m=max(wiring.train))))
    train = batches_of(wiring, wiring.train, seed=1)
    validation = batches_of(wiring, wiring.validation, seed=2, spoil=wiring.spoil)
    if wiring.steps:
        training = [x for x, _ in batches_of(wiring, (5,) * wiring.steps, seed=3)]
        oracle.train(training)
        with torch.no_grad():
            for x in training:
                network.train()(x.clone())
    oracle.gather([x for x, _ in train], wiring.correction, per_slot=wiring.per_slot)
    return Case(wiring, network.eval(), oracle, train, validation, losses_of(wiring, oracle, validation))


def layer_of(features, method="bln", *, semantics, **options):
    own = {"mbn": {"memory_size": 4}, "brn": {"momentum": 0.9}}.get(method, {})
    return make_norm(method, features, semantics=semantics, **own, **options)


def network_of(wiring, norm):
    """The same weights whatever the norm is; γ and β drawn, torch's BatchNorm with statistics of its own."""
    torch.manual_seed(0)
    network = wiring.build(norm).double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            generator = torch.Generator().manual_seed(sum(name.encode()))
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        for one in network.modules():
            if isinstance(one, torch.nn.BatchNorm1d):
                one.running_mean.normal_()
                one.running_var.uniform_(0.5, 2)
    return network


def batches_of(wiring, sizes, seed, *, spoil=None):
    generator = torch.Generator().manual_seed(seed)
    shape = {"vectors": (7,), "sequences": (4, 6), "images": (3, 6, 6), "tokens": (4,)}[wiring.inputs]
    count = sum(sizes)
    if wiring.inputs == "tokens":
        x = torch.randint(0, 11, (count, *shape), generator=generator)
    else:
        x = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    for change in (wiring.prepare, spoil):
        x = x if change is None else change(x)
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def losses_of(wiring, oracle, validation):
    """By word, estimate and size; None for a word without a value."""
    batchings = {len(validation[0][0]): filled(validation)}
    if wiring.sizes is not None:
        x, y = (torch.cat(parts) for parts in zip(*validation, strict=True))
        batchings = {size: cut(x, y, size) for size in wiring.sizes}
    return {
        (word, estimate, size): oracle.losses(words_of(oracle, word), batches, estimate)
        for size, batches in batchings.items()
        for word in oracle.configurations
        for estimate in (oracle.estimates if "T" in word else [None])
    }


def words_of(oracle, word):
    """What each layer reads of a word of the network."""
    return {
        name: "".join(
            letter if letter in sources else "-" for letter, sources in zip(word, SOURCES[layer.method], strict=True)
        )
        for name, layer in oracle.layers.items()
    }


@contextmanager
def unreached_layers_allowed(wiring):
    with warnings.catch_warnings():
        if wiring.unreached:
            warnings.filterwarnings("ignore", "no mini-batch of train_loader reached")
        yield


def evaluated(made, **options):
    wiring = made.wiring
    with unreached_layers_allowed(wiring):
        return bln_search.evaluate_configurations(
            made.network,
            made.handed(made.train),
            made.handed(made.validation),
            batch_sizes=wiring.sizes,
            correction=wiring.correction,
            per_slot=wiring.per_slot,
            **options,
        )


def assert_rows_are_the_oracles(made, ranked):
    outcomes = {
        (str(key.configuration), None if key.estimate is None else str(key.estimate), key.batch_size): one.losses
        for key, one in ranked.outcomes.items()
    }
    expected = {key: losses for key, losses in made.expected.items() if losses is not None}
    assert outcomes.keys() == expected.keys()
    assert len(expected) > 1
    for key, losses in expected.items():
        np.testing.assert_allclose(
            outcomes[key], losses, rtol=made.wiring.tolerance, atol=made.wiring.tolerance, err_msg=str(key)
        )


def assert_equal(wiring, losses, expected, what):
    allowed = wiring.tolerance
    np.testing.assert_allclose(losses, expected, rtol=allowed, atol=allowed, err_msg=str(what))


def answer(wiring, reason, run):
    """What an evaluation gives, None where it is refused for the true reason; it must be where there is a `reason`."""
    if reason is not None:
        with pytest.raises(ModelError, match=reason):
            run()
        return None
    try:
        return run()
    except ModelError as error:
        if wiring.may_refuse is None or not re.search(wiring.may_refuse, str(error)):
            raise
        return None


@pytest.mark.parametrize(("name", "semantics"), CASES)
def test_every_row_of_the_one_pass_has_the_losses_of_the_oracle(name, semantics):
    made = case(name, semantics)
    ranked = answer(made.wiring, made.wiring.one_pass, lambda: evaluated(made))
    if ranked is not None:
        assert_rows_are_the_oracles(made, ranked)


@pytest.mark.parametrize(("name", "semantics"), CASES)
def test_every_row_has_them_one_by_one_too(name, semantics):
    made = case(name, semantics)
    assert_rows_are_the_oracles(made, evaluated(made, one_pass=False))


@pytest.mark.parametrize(("name", "semantics"), CASES)
def test_per_layer_configurations_have_the_losses_of_the_oracle(name, semantics):
    made = case(name, semantics)
    tree = answer(made.wiring, made.wiring.per_layer, lambda: checked_tree_of(made))
    if tree is None:
        return
    digits = drawn(tree.space)
    for row, outcome in zip(digits, tree.outcomes(digits), strict=True):
        words = dict(zip(tree.space.layers, map(str, tree.space.configuration(row).configurations), strict=True))
        every = {name: words.get(name, "FFFF") for name in made.oracle.layers}
        expected = made.oracle.losses(every, filled(made.validation))
        np.testing.assert_allclose(
            outcome.losses, expected, rtol=made.wiring.tolerance, atol=made.wiring.tolerance, err_msg=str(words)
        )


def checked_tree_of(made):
    """As `search_layers` makes it."""
    wiring, device = made.wiring, torch.device("cpu")
    layers = find_norms(made.network)
    with unreached_layers_allowed(wiring):
        every = collect_estimates(made.network, layers, made.handed(made.train), device, None)
    populations = network_populations(layers, every, Correction(wiring.correction), per_slot=wiring.per_slot)
    batches = split_batches(made.handed(made.validation), device, "validation_loader", cross_entropy)
    tree = TreeEvaluator(made.network, batches, populations, TreeOptions())
    tree.check()
    return tree


def drawn(space):
    """The first configuration, the last, and some drawn."""
    rng = np.random.default_rng(0)
    ends = [[0] * len(space.radices), [radix - 1 for radix in space.radices]]
    return np.array(ends + [[int(rng.integers(radix)) for radix in space.radices] for _ in range(DRAWN)])


@pytest.mark.parametrize("word", ["FFFF", "TFFT", "FTTF", "TTTT"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 3), (4, 3, 2, 2)])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("method", ["bn", "ln", "bln"])
@pytest.mark.parametrize(("correction", "per_slot"), [("bessel", False), ("total", True)])
def test_the_oracle_is_the_formula_written_as_loops(method, semantics, shape, word, correction, per_slot):
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=shape) for _ in range(3)]
    norm = OracleNorm(3, method, semantics=semantics, m=4).double().eval()
    gamma, beta = rng.normal(size=3), rng.normal(size=3)
    axis = 2 if len(shape) == 3 else 1
    formula = loops.Formula(method, semantics, 3, 4, gamma, beta, feature_axis=axis)
    with torch.no_grad():
        norm.weight.copy_(torch.from_numpy(gamma))
        norm.bias.copy_(torch.from_numpy(beta))
        norm.observing = True
        for x in batches:
            norm(torch.from_numpy(x))
        norm.observing = False
        norm.estimate_population(correction, per_slot=per_slot)
        norm.word = word
        made = norm(torch.from_numpy(batches[0])).numpy()
    population = loops.population(formula, batches, correction, per_slot)
    np.testing.assert_allclose(made, formula(batches[0], word, population), rtol=1e-12, atol=1e-12)
