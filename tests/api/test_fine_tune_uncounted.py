"""Fine-tuning skips mini-batches without a counted target, and asks for loaders that can be read again."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.errors import DataError
from tests.support.tiers import thinned

pytestmark = pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
IGNORED = -100
GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(40, 6, generator=GENERATOR), torch.randint(0, 3, (40,), generator=GENERATOR)
LOSSES = {
    "a loss module": nn.CrossEntropyLoss(),
    "class weights": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])),
    "weights of a function": lambda outputs, targets: bln_search.ExampleScores(
        F.cross_entropy(outputs, targets, reduction="none"), (targets != IGNORED).float()
    ),
}
TORCH = {"weights of a function": nn.CrossEntropyLoss()}


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), bln_search.BN(8), nn.ReLU(), nn.Linear(8, 3))


def with_ignored(*ignored):
    targets = Y.clone()
    for part in ignored:
        targets[part] = IGNORED
    return list(zip(X.split(10), targets.split(10), strict=True))


def tune(train, score, epochs=1, **options):
    valid = with_ignored()
    arguments = {"learning_rate": 0.05, "epochs": epochs, "optimizer": torch.optim.SGD, "score": score}
    return bln_search.fine_tune(make_network(), "FF--", train, options.pop("validation", valid), **arguments, **options)


@pytest.mark.parametrize("kind", thinned(LOSSES, 2))
@pytest.mark.parametrize("ignored", [(slice(20, 30),), (slice(0, 10),), (slice(10, 20), slice(20, 29)), ()])
def test_the_steps_and_the_mean_are_those_of_torch_over_counted_targets(kind, ignored):
    train, loss = with_ignored(*ignored), TORCH.get(kind, LOSSES[kind])
    tuned, result = tune(train, LOSSES[kind], epochs=2)
    expected, means = make_network().train(), []
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.05)
    class_weights = torch.ones(3) if loss.weight is None else loss.weight
    for _ in range(2):
        total = weight = 0.0
        for x, y in train:
            if (y == IGNORED).all():
                continue
            optimizer.zero_grad()
            value = loss(expected(x), y)
            value.backward()
            optimizer.step()
            size = class_weights[y[y != IGNORED]].sum().item()
            total, weight = total + size * value.item(), weight + size
        means.append(total / weight)
    assert result.diverged is None
    assert [epoch.training_loss for epoch in result.epochs] == pytest.approx(means, rel=1e-5)
    for parameter, other in zip(tuned.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", LOSSES)
def test_training_targets_that_are_all_ignored_are_an_error(kind):
    with pytest.raises(DataError, match="target that counts"):
        tune(with_ignored(slice(0, 40)), LOSSES[kind])


@pytest.mark.parametrize(
    "make", [iter, lambda batches: (batch for batch in batches), lambda batches: map(tuple, batches)]
)
@pytest.mark.parametrize("role", ["train_loader", "validation_loader", "test_loader"])
def test_iterators_are_refused_before_any_pass(make, role):
    loaders = {"train_loader": with_ignored(), "validation_loader": with_ignored(), "test_loader": with_ignored()}
    iterator = loaders[role] = make(loaders[role])
    with pytest.raises(DataError, match=f"{role} is a .*several times"):
        bln_search.fine_tune(make_network(), "FF--", **loaders, learning_rate=0.05)
    assert len(list(iterator)) == 4
