"""Networks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.core.registry import TEXT_MODELS, model_problem, plugin_models
from bln_search.models.convolutional import LeNet
from bln_search.models.dense import MLP
from bln_search.models.initialization import initialize
from bln_search.models.plain import NIN, VGG16
from bln_search.models.recurrent import Recurrent
from bln_search.models.residual import ResNet

NormFactory = Callable[[int], nn.Module]
"""Makes a normalization layer for a number of features."""

MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "gru": partial(Recurrent, cell="gru"),
    "lenet": LeNet,
    "lstm": partial(Recurrent, cell="lstm"),
    "mlp": MLP,
    "nin": NIN,
    "resnet8": partial(ResNet, blocks=1),
    "resnet20": partial(ResNet, blocks=3),
    "resnet56": partial(ResNet, blocks=9),
    "rnn": partial(Recurrent, cell="rnn"),
    "vgg16": VGG16,
}


def build_model(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    norm: NormFactory,
    *,
    seed: int,
    options: Mapping[str, Any] | None = None,
    vocabulary: int | None = None,
) -> nn.Module:
    """A freshly initialized network; the same seed gives the same weights whatever the norm.

    input_shape: of one example. norm: makes a normalization layer for a number of features. vocabulary: inputs are
    marks of words below this number; None where they are measurements. Raises ModelError where a network cannot be.
    """
    check_model(name, options or {})
    given = dict(options or {})
    if vocabulary is not None:
        if not _reads_words(name):
            choice = ", ".join(sorted(TEXT_MODELS))
            raise ModelError(f"the model {name} takes measurements, this data holds words: choose one of {choice}")
        given["vocabulary"] = vocabulary
    network = _made(name, input_shape, classes, norm, given)
    initialize(network, torch.Generator().manual_seed(seed))
    return network


def _made(
    name: str, input_shape: tuple[int, ...], classes: int, norm: NormFactory, options: Mapping[str, Any]
) -> nn.Module:
    """What the registered function gives; an error of one that an installed package brings is about that package."""
    factory = _factory(name)
    if name in MODELS:
        return factory(input_shape, classes, norm, **options)
    try:
        return factory(input_shape, classes, norm, **options)
    except Exception as error:
        given = ", ".join(f"{key}: {value}" for key, value in options.items()) or "no options"
        raise ModelError(
            f"the model {name} of an installed package cannot be made for inputs {input_shape}, {classes} classes and "
            f"{given}: {type(error).__name__}: {error}"
        ) from error


def _reads_words(name: str) -> bool:
    """Does the network take `vocabulary`, by name or among any others?"""
    taken = signature(_factory(name)).parameters
    return "vocabulary" in taken or any(one.kind is Parameter.VAR_KEYWORD for one in taken.values())


def _factory(name: str) -> Callable[..., nn.Module]:
    """What makes the network of that name: built in, or added by an installed package."""
    if name in MODELS:
        return MODELS[name]
    try:
        factory: Callable[..., nn.Module] = plugin_models()[name].load()
    except Exception as error:
        raise ModelError(f"the model {name} of an installed package cannot be loaded: {error}") from error
    return factory


def check_model(name: str, options: Mapping[str, Any]) -> None:
    """Raise ModelError unless there is a model of that name that takes these options."""
    problem = model_problem(name, set(options))
    if problem is not None:
        raise ModelError(problem)
    taken = signature(_factory(name)).parameters
    for option in options:
        if option not in taken:
            raise ModelError(f"the model {name} has no option {option!r}: remove it")
