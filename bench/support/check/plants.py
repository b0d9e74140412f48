"""Faults as people make them: each takes a trained network and its data, and returns what is checked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from bench.support.check.training import (
    Data,
    Transformer,
    list_norms,
    load,
    make_lenet,
    make_mlp,
    make_resnet8,
    train,
)
from bln_search.ranking.network_check import Cause, CheckVerdict


@dataclass(frozen=True)
class Planted:
    """What is checked.

    Attributes:
        network: The network.
        data: Its data.
        training_batch_size: Mini-batch size of the training loader.
        change: Change of the validation inputs; None without one.
        copies: Copies of other processes.
    """

    network: nn.Module
    data: Data
    training_batch_size: int = 32
    change: Callable[[Tensor], Tensor] | None = None
    copies: Sequence[nn.Module] = field(default_factory=tuple)
    validation_batch_size: int = 64

    def loaders(self) -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
        """Training and validation loader."""
        return (
            self.data.training_loader(self.training_batch_size),
            self.data.validation_loader(self.change, self.validation_batch_size),
        )


@dataclass(frozen=True)
class Case:
    """A planted case.

    Attributes:
        name: Name.
        plant: Makes it.
        causes: Causes that are right, of which the first finding names one; empty where none has an effect.
        verdict: The right verdict.
    """

    name: str
    plant: Callable[[], Planted]
    causes: frozenset[Cause]
    verdict: CheckVerdict


def _digits() -> Data:
    return load("digits", 1000, 400)


def _mnist() -> Data:
    return load("mnist", 8000, 1000)


def _cifar() -> Data:
    return load("cifar10", 8000, 1000)


Make = Callable[[], tuple[nn.Module, Data]]


def _mlp(seed: int = 0, **options: float) -> tuple[nn.Module, Data]:
    torch.manual_seed(seed)
    return train(make_mlp(**options), _digits(), epochs=8, seed=seed), _digits()  # type: ignore[arg-type]


@cache
def _train_lenet() -> nn.Module:
    torch.manual_seed(0)
    return train(make_lenet(), _mnist(), epochs=2)


@cache
def _train_resnet() -> nn.Module:
    torch.manual_seed(0)
    return train(make_resnet8(), _cifar(), epochs=3)


def _lenet() -> tuple[nn.Module, Data]:
    return copy.deepcopy(_train_lenet()), _mnist()


def _resnet() -> tuple[nn.Module, Data]:
    return copy.deepcopy(_train_resnet()), _cifar()


def _transformer(seed: int = 0) -> tuple[nn.Module, Data]:
    torch.manual_seed(seed)
    return train(Transformer(), _digits(), epochs=12, seed=seed), _digits()


def healthy(make: Make) -> Planted:
    """As trained."""
    return Planted(*make())


def fine_tuned(make: Make, rate: float = 0.1) -> Planted:
    """Weights are trained further in front of layers that keep their old statistics, which training reads not."""
    network, data = make()
    stored = [(norm.running_mean.clone(), norm.running_var.clone()) for norm in list_norms(network)]  # type: ignore[union-attr]
    for norm in list_norms(network):
        norm.momentum = 0.1
    train(network, data, epochs=2, rate=rate, seed=7)
    for norm, (mean, variance) in zip(list_norms(network), stored, strict=True):
        norm.running_mean.copy_(mean)  # type: ignore[union-attr]
        norm.running_var.copy_(variance)  # type: ignore[union-attr]
    return Planted(network, data)


def exponential_average(make: Make, decay: float = 0.98) -> Planted:
    """An exponential moving average of the weights in training, with the statistics of its start."""
    network, data = make()
    average = copy.deepcopy(network)

    def update() -> None:
        with torch.no_grad():
            for own, other in zip(average.parameters(), network.parameters(), strict=True):
                own.lerp_(other, 1 - decay)

    train(network, data, epochs=2, rate=0.1, seed=8, is_rate_constant=True, after_step=update)
    return Planted(average.eval(), data)


def averaged_weights(make: Make, rate: float = 0.2) -> Planted:
    """SWA without `update_bn`."""
    network, data = make()
    average = AveragedModel(network)
    for epoch in range(4):
        train(network, data, epochs=1, rate=rate, seed=20 + epoch, is_rate_constant=True)
        average.update_parameters(network)
    return Planted(average.eval(), data)


def merged(make: Make) -> Planted:
    """The mean of the weights of two networks that were fine-tuned apart, with the statistics of the first."""
    first, data = make()
    second = copy.deepcopy(first)
    train(first, data, epochs=2, rate=0.2, seed=30)
    train(second, data, epochs=2, rate=0.2, seed=31)
    with torch.no_grad():
        for own, other in zip(first.parameters(), second.parameters(), strict=True):
            own.lerp_(other, 0.5)
    return Planted(first.eval(), data)


@torch.no_grad()
def quantized(make: Make, bits: int = 4) -> Planted:
    """Weights of convolutions and linear layers rounded to one scale for each tensor."""
    network, data = make()
    levels = 2 ** (bits - 1) - 1
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            scale = module.weight.abs().max() / levels
            module.weight.copy_((module.weight / scale).round() * scale)
    return Planted(network, data)


@torch.no_grad()
def pruned(make: Make, share: float = 0.7) -> Planted:
    """The smallest weights of convolutions and hidden layers set to zero."""
    network, data = make()
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            limit = module.weight.abs().flatten().kthvalue(max(1, int(share * module.weight.numel()))).values
            module.weight.mul_(module.weight.abs() > limit)
    return Planted(network, data)


def momentum_zero() -> Planted:
    """Trained with momentum 0."""
    return Planted(*_mlp(momentum=0.0))


def momentum_one() -> Planted:
    """Trained with momentum 1 and small mini-batches."""
    torch.manual_seed(0)
    network = train(make_mlp(momentum=1.0), _digits(), epochs=8, batch_size=4)
    return Planted(network, _digits(), training_batch_size=4)


def batch_of_two() -> Planted:
    """Trained with mini-batches of two."""
    torch.manual_seed(0)
    network = train(make_mlp(), _digits(), epochs=4, batch_size=2, rate=0.01)
    return Planted(network, _digits(), training_batch_size=2)


def few_updates() -> Planted:
    """Trained with so small a momentum that the initial statistics are left."""
    return Planted(*_mlp(momentum=0.002))


def dropout_on() -> Planted:
    """Dropout in training mode."""
    torch.manual_seed(0)
    network = train(make_mlp(dropout=0.5), _digits(), epochs=8)
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    return Planted(network, _digits())


@torch.no_grad()
def not_finite() -> Planted:
    """One channel with NaN."""
    network, data = _mlp()
    list_norms(network)[0].running_mean[3] = torch.nan  # type: ignore[index]
    return Planted(network, data)


@torch.no_grad()
def exchanged() -> Planted:
    """Statistics of two layers exchanged."""
    network, data = _mlp()
    first, second = list_norms(network)[:2]
    for name in ("running_mean", "running_var"):
        one, other = getattr(first, name), getattr(second, name)
        kept = one.clone()
        one.copy_(other)
        other.copy_(kept)
    return Planted(network, data)


class _WithoutFeature(nn.Module):
    """Sets one feature to zero."""

    def __init__(self, feature: int) -> None:
        super().__init__()
        self.feature = feature

    def forward(self, x: Tensor) -> Tensor:
        """Inputs without the feature."""
        return x.index_fill(1, torch.tensor([self.feature]), 0.0)


def constant_channel() -> Planted:
    """One channel that is the same for every example in training."""
    torch.manual_seed(0)
    network = make_mlp()
    network.insert(2, _WithoutFeature(5))
    return Planted(train(network, _digits(), epochs=8), _digits())


def other_epsilon() -> Planted:
    """ε a hundred times larger, where variances are small."""
    data = _digits()
    small = Data(data.inputs * 0.02, data.classes, data.validation_inputs * 0.02, data.validation_classes)
    torch.manual_seed(0)
    network = train(make_mlp(), small, epochs=8)
    for norm in list_norms(network):
        norm.eps *= 100
    return Planted(network, small)


def other_preprocessing() -> Planted:
    """Validation images without the scaling of training."""
    network, data = _lenet()
    return Planted(network, data, change=lambda x: x * 0.31 + 0.13)


def noisy_target() -> Planted:
    """Validation images with noise."""
    network, data = _lenet()
    noise = torch.randn(data.validation_inputs.shape, generator=torch.Generator().manual_seed(3))
    return Planted(network, data, change=lambda x: x + 1.5 * noise)


def blurred_target() -> Planted:
    """Validation images that are blurred."""
    network, data = _resnet()
    return Planted(network, data, change=lambda x: nn.functional.avg_pool2d(x, 5, 1, 2, count_include_pad=False))


def thawed() -> Planted:
    """Frozen layers (γ, β) that `model.train()` put into training mode, used with small mini-batches."""
    network, data = _lenet()
    for norm in list_norms(network):
        norm.requires_grad_(requires_grad=False)
        norm.train()
    return Planted(network, data, validation_batch_size=4)


def left_in_training_mode() -> Planted:
    """Layers in training mode in a network in evaluation mode, used with small mini-batches."""
    network, data = _lenet()
    for norm in list_norms(network):
        norm.train()
    return Planted(network, data, validation_batch_size=4)


class _Branched(nn.Module):
    """A network with a branch that it does not use."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.spare = network, nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the used part."""
        outputs: Tensor = self.network(x)
        return outputs


def unused_branch() -> Planted:
    """A layer that no data reach."""
    network, data = _mlp()
    return Planted(_Branched(network).eval(), data)


@torch.no_grad()
def two_ranks() -> Planted:
    """Statistics that two processes estimated from different classes with equal weights."""
    network, data = _resnet()
    copies = []
    for part in (data.classes < 2, (data.classes > 3) & (data.classes < 6)):
        rank = copy.deepcopy(network)
        rank.train()
        for _ in range(3):
            for inputs in data.inputs[part].split(64):  # type: ignore[no-untyped-call]
                rank(inputs)
        copies.append(rank.eval())
    return Planted(copies[0], data, copies=(copies[1],))


KEEP, CHANGE = CheckVerdict.KEEP, CheckVerdict.CHANGE
_STALE = frozenset({Cause.STALE_STATISTICS})
_NONE: frozenset[Cause] = frozenset()

CASES: tuple[Case, ...] = (
    Case("healthy, MLP", partial(healthy, _mlp), _NONE, KEEP),
    Case("healthy, LeNet", partial(healthy, _lenet), _NONE, KEEP),
    Case("healthy, ResNet-8", partial(healthy, _resnet), _NONE, KEEP),
    Case("healthy, transformer", partial(healthy, _transformer), _NONE, KEEP),
    Case("fine-tuned, MLP", partial(fine_tuned, _mlp, 0.5), _STALE, CHANGE),
    Case("fine-tuned, LeNet", partial(fine_tuned, _lenet), _STALE, CHANGE),
    Case("fine-tuned, ResNet-8", partial(fine_tuned, _resnet), _STALE, CHANGE),
    Case("EMA without buffers, LeNet", partial(exponential_average, _lenet), _STALE, CHANGE),
    Case("EMA without buffers, ResNet-8", partial(exponential_average, _resnet), _STALE, CHANGE),
    Case("SWA, LeNet", partial(averaged_weights, _lenet), _STALE, CHANGE),
    Case("SWA, transformer", partial(averaged_weights, _transformer), _STALE, CHANGE),
    Case("merged weights, ResNet-8", partial(merged, _resnet), _STALE, CHANGE),
    Case("3 bits, LeNet", partial(quantized, _lenet, 3), _STALE, CHANGE),
    Case("4 bits, ResNet-8", partial(quantized, _resnet), _STALE, CHANGE),
    Case("pruned, LeNet", partial(pruned, _lenet, 0.9), _STALE, CHANGE),
    Case("pruned, ResNet-8", partial(pruned, _resnet), _STALE, CHANGE),
    Case("momentum 0", momentum_zero, frozenset({Cause.MOMENTUM_ZERO}), CHANGE),
    Case("momentum 1", momentum_one, frozenset({Cause.MOMENTUM_ONE}), CHANGE),
    Case("mini-batches of 2", batch_of_two, frozenset({Cause.SMALL_TRAINING_BATCHES}), CHANGE),
    Case("few updates", few_updates, frozenset({Cause.FEW_UPDATES}), CHANGE),
    Case("other preprocessing", other_preprocessing, frozenset({Cause.OTHER_PREPROCESSING}), CHANGE),
    Case("noisy target", noisy_target, frozenset({Cause.OTHER_DOMAIN}), CHANGE),
    Case("blurred target", blurred_target, frozenset({Cause.OTHER_DOMAIN}), CHANGE),
    Case("ε × 100", other_epsilon, frozenset({Cause.CHANGED_EPSILON}), CHANGE),
    Case("exchanged statistics", exchanged, frozenset({Cause.EXCHANGED_STATISTICS}), CHANGE),
    Case("constant channel", constant_channel, frozenset({Cause.CONSTANT_CHANNELS}), KEEP),
    Case("NaN channel", not_finite, frozenset({Cause.NOT_FINITE}), CHANGE),
    Case("dropout on", dropout_on, frozenset({Cause.RANDOMNESS}), CHANGE),
    Case("frozen layers thawed", thawed, frozenset({Cause.FROZEN_LAYERS_IN_TRAINING_MODE}), CHANGE),
    Case("left in training mode", left_in_training_mode, frozenset({Cause.LAYERS_IN_TRAINING_MODE}), CHANGE),
    Case("unused branch", unused_branch, frozenset({Cause.UNUSED_LAYERS}), KEEP),
    Case("two ranks' statistics", two_ranks, frozenset({Cause.COPIES_DIFFER}), CHANGE),
)
