"""Wirings have the losses of an oracle in one pass, row by row and per layer, or raise the expected error."""

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
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.evaluation_data import EvaluationData, load_split_into_memory, parse_population_loaders
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.preparation import collect_all_population_estimates
from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.norms import make_norm
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from tests.evaluation.oracle import METHOD_SOURCES, Oracle, OracleNorm, fill_batches, split_and_fill
from tests.evaluation.wirings import CLASSES, WIRINGS, Wiring
from tests.norms import oracle as loops
from tests.support.tiers import latin, thinned

SEMANTICS = ("paper", "reference")
CASES = latin(tuple(WIRINGS), SEMANTICS)
DRAWN_CONFIGURATIONS = 6
"""Number of random per-layer configurations of each wiring that are compared."""


@dataclass
class Case:
    """A wiring with layers of bln_search and with oracle layers, its mini-batches, and the losses of the oracle."""

    wiring: Wiring
    network: torch.nn.Module
    oracle: Oracle
    train: list
    validation: list
    expected: dict

    def loader(self, batches):
        return self.wiring.loader(batches)


@cache
def make_case(name, semantics):
    wiring = WIRINGS[name]
    network = build_network(wiring, partial(make_layer, semantics=semantics))
    oracle = Oracle(build_network(wiring, partial(OracleNorm, semantics=semantics, m=max(wiring.train))))
    train = draw_batches(wiring, wiring.train, seed=1)
    validation = draw_batches(wiring, wiring.validation, seed=2, spoil=wiring.spoil)
    if wiring.steps:
        training_inputs = [x for x, _ in draw_batches(wiring, (5,) * wiring.steps, seed=3)]
        oracle.train(training_inputs)
        with torch.no_grad():
            for x in training_inputs:
                network.train()(x.clone())
    oracle.estimate_populations([x for x, _ in train], wiring.correction, per_slot=wiring.per_slot)
    return Case(wiring, network.eval(), oracle, train, validation, oracle_losses(wiring, oracle, validation))


def make_layer(features, method="bln", *, semantics, **options):
    method_options = {"mbn": {"memory_size": 4}, "brn": {"momentum": 0.9}}.get(method, {})
    return make_norm(method, features, semantics=semantics, **method_options, **options)


def build_network(wiring, norm):
    """Build a network whose weights do not depend on the norm, with random γ, β and running statistics."""
    torch.manual_seed(0)
    network = wiring.build(norm).double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            generator = torch.Generator().manual_seed(sum(name.encode()))
            if parameter.ndim == 1:
                parameter.copy_(1 + 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return network


def draw_batches(wiring, sizes, seed, *, spoil=None):
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


def oracle_losses(wiring, oracle, validation):
    """Return losses by code, estimate and mini-batch size; None where a configuration is undefined."""
    batches_by_size = {len(validation[0][0]): fill_batches(validation)}
    if wiring.sizes is not None:
        x, y = (torch.cat(parts) for parts in zip(*validation, strict=True))
        batches_by_size = {size: split_and_fill(x, y, size) for size in wiring.sizes}
    return {
        (code, estimate, size): oracle.losses(layer_codes(oracle, code), batches, estimate)
        for size, batches in batches_by_size.items()
        for code in oracle.codes
        for estimate in (oracle.estimates if "T" in code else [None])
    }


def layer_codes(oracle, code):
    """Return the configuration of each layer under a configuration of the network."""
    return {
        name: "".join(
            letter if letter in sources else "-"
            for letter, sources in zip(code, METHOD_SOURCES[layer.method], strict=True)
        )
        for name, layer in oracle.layers.items()
    }


@contextmanager
def unreached_layers_allowed(wiring):
    with warnings.catch_warnings():
        if wiring.unreached:
            warnings.filterwarnings("ignore", "no mini-batch of train_loader reached")
        yield


def evaluate(case, **options):
    wiring = case.wiring
    with unreached_layers_allowed(wiring):
        return bln_search.evaluate_configurations(
            case.network,
            case.loader(case.train),
            case.loader(case.validation),
            batch_sizes=wiring.sizes,
            correction=wiring.correction,
            per_slot=wiring.per_slot,
            **options,
        )


def assert_rows_equal_the_oracle(case, ranked):
    outcomes = {
        (
            str(key.configuration),
            None if key.estimate is None else str(key.estimate),
            key.batch_size,
        ): row_outcomes.losses
        for key, row_outcomes in ranked.outcomes.items()
    }
    expected = {key: losses for key, losses in case.expected.items() if losses is not None}
    assert outcomes.keys() == expected.keys()
    assert len(expected) > 1
    for key, losses in expected.items():
        np.testing.assert_allclose(
            outcomes[key], losses, rtol=case.wiring.tolerance, atol=case.wiring.tolerance, err_msg=str(key)
        )


def result_unless_refused(wiring, reason, run):
    """Return the result of `run`; None where it raises the expected error, which it must where there is a `reason`."""
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


@pytest.mark.parametrize(("name", "semantics"), thinned(CASES, 3, start=2))
def test_every_one_pass_loss_is_that_of_the_oracle(name, semantics):
    case = make_case(name, semantics)
    ranked = result_unless_refused(case.wiring, case.wiring.one_pass, lambda: evaluate(case))
    if ranked is not None:
        assert_rows_equal_the_oracle(case, ranked)


@pytest.mark.parametrize(("name", "semantics"), thinned(CASES, 4))
def test_every_row_by_row_loss_is_that_of_the_oracle(name, semantics):
    case = make_case(name, semantics)
    assert_rows_equal_the_oracle(case, evaluate(case, one_pass=False))


@pytest.mark.parametrize(("name", "semantics"), thinned(CASES, 4, start=1))
def test_every_per_layer_loss_is_that_of_the_oracle(name, semantics):
    case = make_case(name, semantics)
    tree = result_unless_refused(case.wiring, case.wiring.per_layer, lambda: make_checked_tree(case))
    if tree is None:
        return
    digits = draw_digits(tree.space)
    for row, outcomes in zip(digits, tree.evaluate_per_example(digits), strict=True):
        codes = dict(
            zip(tree.space.layers, map(str, tree.space.configuration_of_choice_digits(row).configurations), strict=True)
        )
        all_codes = {name: codes.get(name, "FFFF") for name in case.oracle.layers}
        expected = case.oracle.losses(all_codes, fill_batches(case.validation))
        np.testing.assert_allclose(
            outcomes.losses, expected, rtol=case.wiring.tolerance, atol=case.wiring.tolerance, err_msg=str(codes)
        )


def make_checked_tree(case):
    """Make and check a tree evaluator as `search_layers` does."""
    wiring, adapter = case.wiring, BatchAdapter(case.network, None, None, torch.device("cpu"))
    layers = get_norms_by_name(case.network)
    with unreached_layers_allowed(wiring):
        data = EvaluationData.from_loaders(parse_population_loaders(case.loader(case.train)), {})
        moments = collect_all_population_estimates(adapter, layers, data.populations, None)
    populations = compute_populations_of_layers(
        layers, moments, Correction(wiring.correction), per_slot=wiring.per_slot
    )
    batches = load_split_into_memory(
        RoleLoader(case.loader(case.validation), "validation_loader"), cross_entropy_and_correctness, adapter
    )
    tree = TreePerLayerEvaluator(case.network, batches, populations, PerLayerEvaluatorOptions())
    tree.check_against_plain_passes()
    return tree


def draw_digits(space):
    """Return the first configuration, the last, and some random ones."""
    rng = np.random.default_rng(0)
    ends = [[0] * len(space.num_options_per_choice), [radix - 1 for radix in space.num_options_per_choice]]
    return np.array(
        ends
        + [[int(rng.integers(radix)) for radix in space.num_options_per_choice] for _ in range(DRAWN_CONFIGURATIONS)]
    )


@pytest.mark.parametrize("code", ["FFFF", "TFFT", "FTTF", "TTTT"])
@pytest.mark.parametrize(("shape", "semantics"), latin([(4, 3), (4, 2, 3), (4, 3, 2, 2)], SEMANTICS))
@pytest.mark.parametrize("method", ["bn", "ln", "bln"])
@pytest.mark.parametrize(("correction", "per_slot"), [("bessel", False), ("total", True)])
def test_the_oracle_equals_the_formula_as_loops(method, semantics, shape, code, correction, per_slot):
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=shape) for _ in range(3)]
    norm = OracleNorm(3, method, semantics=semantics, m=4).double().eval()
    gamma, beta = rng.normal(size=3), rng.normal(size=3)
    axis = 2 if len(shape) == 3 else 1
    formula = loops.Formula(method, semantics, 3, 4, gamma, beta, feature_axis=axis)
    with torch.no_grad():
        norm.weight.copy_(torch.from_numpy(gamma))
        norm.bias.copy_(torch.from_numpy(beta))
        norm.is_observing = True
        for x in batches:
            norm(torch.from_numpy(x))
        norm.is_observing = False
        norm.estimate_population(correction, per_slot=per_slot)
        norm.code = code
        outputs = norm(torch.from_numpy(batches[0])).numpy()
    population = loops.population(formula, batches, correction, per_slot)
    np.testing.assert_allclose(outputs, formula(batches[0], code, population), rtol=1e-12, atol=1e-12)
