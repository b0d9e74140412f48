"""The parameters of `forward` tell inputs from targets; ambiguous mini-batches are one error."""

from __future__ import annotations

import copy
from collections import UserDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

import bln_search
from bln_search.core.errors import DataError
from tests.support.tiers import latin

torch.manual_seed(0)
X, CONDITION, Y = torch.randn(60, 6), torch.arange(60) % 5, torch.randint(0, 3, (60,))
PARTS = torch.arange(60).split(20)


class Conditional(nn.Module):
    """Its second input, which is optional and has a name of the derived class, changes what the layer normalizes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.n, self.e, self.o = nn.Linear(6, 8), bln_search.BN(8), nn.Embedding(5, 8), nn.Linear(8, 3)

    def hidden(self, x, condition):
        return self.a(x) if condition is None else self.a(x) + 3 * self.e(condition)

    def run(self, x, condition):
        return self.o(F.relu(self.n(self.hidden(x, condition))))


class WithLabel(Conditional):
    def forward(self, x, label=None):
        return self.run(x, label)


class WithLabels(Conditional):
    def forward(self, x, labels):
        return self.run(x, labels)


class WithTarget(Conditional):
    def forward(self, x, *, target):
        return self.run(x, target)


class WithKeywords(Conditional):
    def forward(self, x, **others):
        return self.run(x, others.get("label"))


class WithLoss(Conditional):
    """As networks of transformers: `labels` gives a loss and does not change the output."""

    def forward(self, x, condition=None, labels=None):
        scores = self.run(x, condition)
        return {"logits": scores} if labels is None else {"loss": F.cross_entropy(scores, labels), "logits": scores}


class WithOptionalLabels(Conditional):
    def forward(self, x, labels=None):
        return self.run(x, labels)


class WithTwoInputs(Conditional):
    def forward(self, x, condition):
        return self.run(x, condition)


class WithOneInput(Conditional):
    def forward(self, x):
        return self.run(x, None)


Conditioned = namedtuple("Conditioned", ["x", "label", "labels"])
Reversed = namedtuple("Reversed", ["targets", "x"])
Unlabelled = namedtuple("Unlabelled", ["x", "label"])


@dataclass
class Sample:
    x: torch.Tensor
    label: torch.Tensor
    targets: torch.Tensor


def keyed(condition, target, make=dict):
    return [make(**{"x": X[part], condition: CONDITION[part], target: Y[part]}) for part in PARTS]


@torch.no_grad()
def assert_values_of_torch(network, ranked, *, conditioned):
    """The population is the mean of what the layer normalizes, and the loss that of the network with the row."""
    inner = network.module if isinstance(network, AveragedModel) else network
    condition = CONDITION if conditioned else None
    name = next(iter(ranked.populations["frozen"]))
    mean = ranked.populations["frozen"][name].batch.mean
    torch.testing.assert_close(mean.flatten().float(), inner.hidden(X, condition).mean(0), rtol=1e-5, atol=1e-5)
    for row in ranked:
        applied = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
        run = applied.module.run if isinstance(network, AveragedModel) else applied.run
        scores = torch.cat([run(X[part], CONDITION[part] if conditioned else None) for part in PARTS])
        loss = row.row.metrics["validation"].loss.mean
        assert loss == pytest.approx(F.cross_entropy(scores, Y).item(), rel=1e-5)


KEYS = {
    "label is an optional input": (WithLabel, keyed("label", "labels")),
    "labels is a necessary input": (WithLabels, keyed("labels", "target")),
    "target is an input by keyword alone": (WithTarget, keyed("target", "label")),
    "labels is for the loss": (WithLoss, keyed("condition", "labels")),
    "a mapping": (WithLabel, keyed("label", "targets", lambda **parts: UserDict(parts))),
    "a named tuple": (WithLabel, keyed("label", "labels", Conditioned)),
    "a dataclass": (WithLabel, keyed("label", "targets", Sample)),
    "a tuple of a dictionary": (WithLabels, [({"x": X[i], "labels": CONDITION[i]}, Y[i]) for i in PARTS]),
}


@pytest.mark.parametrize(("kind", "read_in_advance"), latin(KEYS, [True, False]))
def test_keys_that_are_parameters_of_forward_are_inputs(kind, read_in_advance):
    make, batches = KEYS[kind]
    network = make()
    train, validation = (batches, batches) if read_in_advance else (iter(batches), iter(batches))
    assert_values_of_torch(network, bln_search.evaluate_configurations(network, train, validation), conditioned=True)


def test_a_named_tuple_in_another_order_is_read_by_its_names():
    network = WithOneInput()
    batches = [Reversed(Y[part], X[part]) for part in PARTS]
    assert_values_of_torch(network, bln_search.evaluate_configurations(network, batches, batches), conditioned=False)


@pytest.mark.parametrize(
    ("make", "batches", "target"),
    [
        (WithLabel, keyed("label", "y"), lambda batch: batch["y"]),
        (WithLoss, keyed("condition", "labels"), lambda batch: batch["labels"].clone()),
        (WithKeywords, keyed("label", "labels"), lambda batch: batch["labels"].clone()),
        (
            WithLabels,
            [{"x": X[i], "labels": CONDITION[i], "target": Y[i]} for i in PARTS],
            lambda batch: batch["target"] + 0,
        ),
    ],
)
def test_target_leaves_the_other_keys_to_forward(make, batches, target):
    network = make()
    assert_values_of_torch(
        network, bln_search.evaluate_configurations(network, batches, batches, target=target), conditioned=True
    )


AMBIGUOUS = {
    "the only label is an input": (WithLabel, [{"x": X, "label": Y}]),
    "the only label is a necessary input": (WithLabels, [{"x": X, "labels": Y}]),
    "two labels and no input": (WithOneInput, [{"x": X, "labels": Y, "target": Y}]),
    "two labels, one for the loss": (WithLoss, [{"x": X, "labels": CONDITION, "target": Y}]),
    "two labels by any keyword": (WithKeywords, keyed("label", "labels")),
    "two labels of a dataclass": (WithLoss, [Sample(X, CONDITION, Y)]),
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_other_than_one_remaining_key_is_an_error(kind):
    make, batches = AMBIGUOUS[kind]
    with pytest.raises(DataError, match=r"validation_loader .*give target=.*forward="):
        bln_search.evaluate_configurations(make(), [((X, CONDITION),)], batches)


LABELLED_PAIRS = [((X[part], CONDITION[part]), Y[part]) for part in PARTS]
UNLABELLED = {
    "pairs": [(X[part], CONDITION[part]) for part in PARTS],
    "lists": [[X[part], CONDITION[part]] for part in PARTS],
    "a list of the pair": [((X[part], CONDITION[part]),) for part in PARTS],
    "pairs with targets": LABELLED_PAIRS,
}


@pytest.mark.parametrize("kind", UNLABELLED)
@pytest.mark.parametrize("make", [WithLabel, WithTwoInputs])
def test_unlabelled_pairs_are_the_inputs_of_validation(kind, make):
    network = make()
    assert_values_of_torch(
        network, bln_search.evaluate_configurations(network, UNLABELLED[kind], LABELLED_PAIRS), conditioned=True
    )


def test_unlabelled_named_parts_are_inputs():
    validation = keyed("label", "labels")
    for train in (
        [Unlabelled(X[part], CONDITION[part]) for part in PARTS],
        [{"x": X[part], "label": CONDITION[part]} for part in PARTS],
    ):
        network = WithLabel()
        assert_values_of_torch(
            network, bln_search.evaluate_configurations(network, train, validation), conditioned=True
        )


def test_an_unlabelled_dictionary_has_the_keys_of_the_inputs_of_validation():
    network = WithOptionalLabels()
    validation = [({"x": X[part], "labels": CONDITION[part]}, Y[part]) for part in PARTS]
    ranked = bln_search.evaluate_configurations(network, [inputs for inputs, _ in validation], validation)
    assert_values_of_torch(network, ranked, conditioned=True)


@pytest.mark.parametrize(("make", "workers"), latin([WithLabel, WithLoss, WithOneInput], [0, 1]))
def test_pairs_in_the_form_of_validation_have_targets(make, workers):
    network = make()
    loader = DataLoader(list(zip(X, Y, strict=True)), batch_size=20, num_workers=workers)
    assert_values_of_torch(network, bln_search.evaluate_configurations(network, loader, loader), conditioned=False)


class Recurrent(nn.Module):
    """Takes sequences of any length, and optionally a state."""

    def __init__(self, labels_of_steps):
        super().__init__()
        torch.manual_seed(1)
        self.r, self.n, self.o = nn.GRU(5, 8, batch_first=True), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.labels_of_steps = labels_of_steps

    def forward(self, x, state=None):
        hidden = self.o(self.n(self.r(x, state)[0].transpose(1, 2)).transpose(1, 2))
        return hidden.transpose(1, 2) if self.labels_of_steps else hidden[:, -1]


@pytest.mark.parametrize("labels_of_steps", [False, True])
@pytest.mark.parametrize("lengths", [(9, 9, 9), (7, 9, 8), (9, 7, 8)])
def test_lengths_of_sequences_may_differ_between_training_and_validation(lengths, labels_of_steps):
    def batches(lengths):
        shapes = [(4, length) if labels_of_steps else (4,) for length in lengths]
        return [(torch.randn(4, n, 5), torch.randint(0, 3, shape)) for n, shape in zip(lengths, shapes, strict=True)]

    network = bln_search.convert(Recurrent(labels_of_steps).eval(), method="same")
    ranked = bln_search.evaluate_configurations(
        network, batches(lengths), batches((7, 7)), score=nn.CrossEntropyLoss(), one_pass=False
    )
    assert {str(row.configuration) for row in ranked} >= {"FF--", "TT--"}


AMBIGUOUS_PAIRS = {
    "validation has targets of another size": (
        [(X, torch.rand(60, 6))],
        [(X, F.one_hot(Y, 3).float())],
        {"score": "mse"},
    ),
    "validation has other targets": ([(X, CONDITION)], [(X, F.one_hot(Y, 3).float())], {"score": "mse"}),
    "validation is structured": ([(X, torch.rand(60, 5))], LABELLED_PAIRS, {}),
    "validation is a dictionary": ([(X, CONDITION)], keyed("label", "labels"), {}),
    "labels of a dictionary are inputs of validation": (
        iter([{"x": X, "labels": CONDITION}]),
        iter([({"x": X, "labels": CONDITION}, Y)]),
        {},
    ),
    "validation is read later": (iter([(X, CONDITION)]), iter(LABELLED_PAIRS), {}),
}


@pytest.mark.parametrize("kind", AMBIGUOUS_PAIRS)
def test_pairs_of_another_form_are_an_error(kind):
    train, validation, options = AMBIGUOUS_PAIRS[kind]
    with pytest.raises(DataError, match=r"train_loader.*forward="):
        make = WithOptionalLabels if kind.startswith("labels") else WithLabel
        bln_search.evaluate_configurations(make(), train, validation, **options)


def test_a_second_part_that_target_does_not_read_is_an_error():
    pairs = [(X, CONDITION)]
    with pytest.raises(DataError, match=r"validation_loader.* ambiguous.*forward="):
        bln_search.evaluate_configurations(WithLabel(), pairs, pairs, target=lambda batch: batch[0][:, :3], score="mse")


def test_target_may_return_an_input():
    class Reconstruction(nn.Sequential):
        pass

    torch.manual_seed(0)
    network = Reconstruction(nn.Linear(6, 6), bln_search.BN(6), nn.Linear(6, 6))
    batches = [{"input": X[part]} for part in PARTS]
    ranked = bln_search.evaluate_configurations(
        network, batches, batches, target=lambda batch: batch["input"], score="mse"
    )
    applied = bln_search.apply_configuration(copy.deepcopy(network), ranked[0]).eval()
    with torch.no_grad():
        outputs = torch.cat([applied(X[part]) for part in PARTS])
    assert ranked[0].row.metrics["validation"].loss.mean == pytest.approx(F.mse_loss(outputs, X).item(), rel=1e-5)
