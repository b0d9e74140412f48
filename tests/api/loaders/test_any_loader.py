"""Any loader in any role gives the figures of its mini-batches in a list, or one error that names its role."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.errors import DataError
from tests.api.loaders.any_loader import READ_AGAIN, READ_ONCE, REFUSED, SIZE, SharedStream, cut
from tests.support.tiers import latin, thinned

torch.manual_seed(0)
X, Y = torch.randn(120, 6) * 3 + 2, torch.randint(0, 3, (120,))
TRAIN = cut(X - 1, Y)
ALL = {**READ_AGAIN, **READ_ONCE}


def make_network(seed=0):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for x, _ in TRAIN:
        network(x)
    return bln_search.convert(network.eval(), method="same")


NETWORK = make_network()
RIGHT = F.cross_entropy(NETWORK(X), Y).item()


def row_losses(ranked, split="validation"):
    return {str(row): row.row.metrics[split].loss.mean for row in ranked if row.row.metrics}


def as_lists(loader):
    """The mini-batches of a loader, whose order is decided by the seed before."""
    batches = (batch.values() if isinstance(batch, dict) else batch for batch in loader)
    return [(x.clone(), y.clone()) for x, y in batches]


@pytest.mark.parametrize("kind", thinned(ALL, 2, start=1))
def test_population_is_that_of_the_mini_batches(kind):
    torch.manual_seed(5)
    expected = row_losses(bln_search.evaluate_configurations(NETWORK, as_lists(ALL[kind](X, Y)), cut(X, Y)))
    torch.manual_seed(5)
    ranked = bln_search.evaluate_configurations(NETWORK, ALL[kind](X, Y), cut(X, Y))
    assert row_losses(ranked) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("kind", "one_pass"), thinned(latin(tuple(ALL), [True, False]), 2))
def test_every_example_of_validation_and_test_is_scored_once(kind, one_pass):
    ranked = bln_search.evaluate_configurations(
        NETWORK, TRAIN, ALL[kind](X, Y), test_loader=ALL[kind](X, Y), one_pass=one_pass
    )
    assert {len(outcomes.losses) for outcomes in ranked.outcomes.values()} == {120}
    for split in ("validation", "test"):
        assert ranked.as_is.row.metrics[split].loss.mean == pytest.approx(RIGHT, rel=1e-5)


@pytest.mark.parametrize("kind", thinned(READ_AGAIN, 2))
def test_one_loader_in_all_roles_is_read_for_each_of_them(kind):
    loader = READ_AGAIN[kind](X, Y)
    ranked = bln_search.evaluate_configurations(
        NETWORK, {"source": TRAIN, "target": loader}, {"first": loader, "second": loader}
    )
    for table in (ranked["first"], ranked["second"]):
        assert {len(outcomes.losses) for outcomes in table.outcomes.values()} == {120}
        assert table.as_is.row.metrics["validation"].loss.mean == pytest.approx(RIGHT, rel=1e-5)


@pytest.mark.filterwarnings("ignore:mini-batches of several tensors")  # dictionaries are evaluated one by one
@pytest.mark.parametrize("kind", thinned(READ_AGAIN, 2, start=1))
def test_per_layer_search_reads_one_loader_in_two_roles(kind):
    loader = READ_AGAIN[kind](X, Y)
    layered = bln_search.search_layers(NETWORK, loader, loader)
    assert layered.record.confirmed.losses.shape == (120,)


@pytest.mark.parametrize("kind", thinned(READ_AGAIN, 2))
def test_networks_are_compared_example_by_example(kind):
    """Population rows do not depend on the order, so their losses of the second network are those of torch."""
    networks = [NETWORK, make_network(1)]
    ranked = bln_search.evaluate_configurations(networks, TRAIN, READ_AGAIN[kind](X, Y))
    own = [F.cross_entropy(network(X), Y, reduction="none") for network in networks]
    first, second = (
        next(table.outcomes[key].losses for key in table.outcomes if (str(key.configuration), key.estimate) == MOVING)
        for table in ranked.networks
    )
    together = torch.stack([torch.tensor(first), torch.tensor(second)])
    expected = torch.stack(own)
    order, expected_order = together[0].argsort(), expected[0].argsort()
    torch.testing.assert_close(together[:, order], expected[:, expected_order], rtol=1e-4, atol=1e-5)


MOVING = ("TT--", "moving")


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_loaders_name_their_role(kind):
    make, message = REFUSED[kind]
    options = {"learning_rate": 0.01, "epochs": 1}
    for call, role in (
        (lambda loader: bln_search.evaluate_configurations(NETWORK, loader, TRAIN), "train_loader"),
        (
            lambda loader: bln_search.evaluate_configurations(NETWORK, {"a": TRAIN, "b": loader}, TRAIN),
            r"train_loader\['b'\]",
        ),
        (lambda loader: bln_search.evaluate_configurations(NETWORK, TRAIN, loader), "validation_loader"),
        (lambda loader: bln_search.evaluate_configurations(NETWORK, TRAIN, TRAIN, test_loader=loader), "test_loader"),
        (
            lambda loader: bln_search.evaluate_configurations(NETWORK, TRAIN, {"noise": loader}),
            r"validation_loader\['noise'\]",
        ),
        (lambda loader: bln_search.search_layers(NETWORK, TRAIN, loader), "validation_loader"),
        (lambda loader: bln_search.fine_tune(NETWORK, "TT--", loader, TRAIN, **options), "train_loader"),
    ):
        with pytest.raises(DataError, match=role) as raised:
            call(make(X, Y))
        assert re.search(message, str(raised.value))


def test_two_loaders_over_one_stream_are_one_error():
    """The population has read it to its end; nothing is scored on a part."""
    stream = SharedStream(X, Y)
    with pytest.raises(DataError, match="validation_loader yields no mini-batch"):
        bln_search.evaluate_configurations(NETWORK, DataLoader(stream, SIZE), DataLoader(stream, SIZE))


def test_random_augmentation_is_refused_for_several_networks_only():
    class Augmented(torch.utils.data.Dataset):
        def __len__(self):
            return 120

        def __getitem__(self, index):
            return X[index] + torch.randn(6), Y[index]

    loader = DataLoader(Augmented(), SIZE)
    assert bln_search.evaluate_configurations(NETWORK, TRAIN, loader).as_is is not None
    with pytest.raises(DataError, match="validation_loader yields other examples"):
        bln_search.evaluate_configurations([NETWORK, make_network(1)], TRAIN, loader)


def test_random_numbers_are_those_of_a_plain_reading():
    """Checks before the passes draw nothing that a later reading would draw."""
    loader = DataLoader(TensorDataset(X, Y), SIZE, shuffle=True)
    torch.manual_seed(7)
    expected = [x for x, _ in loader]
    seen = []
    network = copy.deepcopy(NETWORK)
    network.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].clone()))
    torch.manual_seed(7)
    with pytest.raises(DataError):
        bln_search.evaluate_configurations(network, loader, iter([]))
    for x in expected:
        assert any(torch.equal(x, other) for other in seen)


@pytest.mark.parametrize("unlabelled", [lambda x: x, lambda x: (x,)], ids=["inputs alone", "one-tuples"])
def test_the_population_needs_no_targets(unlabelled):
    expected = bln_search.evaluate_configurations(NETWORK, TRAIN, cut(X, Y))
    ranked = bln_search.evaluate_configurations(NETWORK, [unlabelled(x) for x, _ in TRAIN], cut(X, Y))
    assert row_losses(ranked) == row_losses(expected)
