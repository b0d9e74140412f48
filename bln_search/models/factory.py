"""Building a network by the name of its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from bln_search.core.errors import ModelError
from bln_search.core.registry import MODELS, find_model_problem, list_text_models
from bln_search.data.input_shape import InputShape, make_zero_inputs
from bln_search.models.analytic import bind_analytic_layers
from bln_search.models.initialization import initialize_weights
from bln_search.norms.network.unit_positions import expand_unit_parameters_to_inputs

NormLayerConstructor = Callable[[int], nn.Module]
"""Makes a normalization layer for a number of features."""


def build_model(
    name: str,
    input_shape: InputShape,
    classes: int,
    norm: NormLayerConstructor,
    *,
    seed: int,
    options: Mapping[str, Any] | None = None,
    vocabulary: int | None = None,
    most_parameters: int | None = None,
) -> nn.Module:
    """Build and initialize a network. Initial weights depend on the seed only, not on the normalization layers.

    Args:
        name: of the model.
        input_shape: of one example; of several inputs a field for each name.
        classes: number of classes.
        norm: makes a normalization layer for a number of features.
        seed: of the initial weights.
        options: further arguments of the model.
        vocabulary: number of token ids of the inputs; None where inputs are measurements.
        most_parameters: how many values a built-in model may have, checked before memory is taken; None for any.

    Raises:
        ModelError: there is no such model, or it does not support the options, the input shape, token ids or the
            method of the normalization layers; or it has more parameters than allowed.
    """
    check_model_name_and_options(name, options or {})
    _check_number_of_inputs(name, input_shape)
    arguments = dict(options or {})
    if vocabulary is not None:
        if not _accepts_vocabulary(name):
            choice = ", ".join(list_text_models())
            raise ModelError(f"the model {name} takes measurements, but this data holds texts: choose {choice}")
        arguments["vocabulary"] = vocabulary
    if most_parameters is not None and name in MODELS.built_in:
        with torch.device("meta"):
            without_memory = _make_network(name, input_shape, classes, norm, arguments)
        count = sum(parameter.numel() for parameter in without_memory.parameters())
        if count > most_parameters:
            raise ModelError(f"the model {name} has {count:,} parameters with these options, not {most_parameters:,}")
    network = _make_network(name, input_shape, classes, norm, arguments)
    initialize_weights(network, torch.Generator().manual_seed(seed))
    example = make_zero_inputs(input_shape, 2, is_text=vocabulary is not None)
    expand_unit_parameters_to_inputs(network, example)
    return bind_analytic_layers(network, example)


def _check_number_of_inputs(name: str, input_shape: InputShape) -> None:
    """Raise ModelError where a model with a description takes one input and the data has several, or vice versa."""
    info = MODELS.find_info(name)
    if info is None or isinstance(input_shape, tuple) != info.takes_several_inputs:
        return
    if isinstance(input_shape, tuple):
        raise ModelError(
            f"the model {name} takes several inputs, but an example of this data is one: choose other data"
        )
    raise ModelError(
        f"the model {name} takes one input, but an example of this data has several, {', '.join(input_shape)}: choose "
        "another model"
    )


def _make_network(
    name: str, input_shape: InputShape, classes: int, norm: NormLayerConstructor, options: Mapping[str, Any]
) -> nn.Module:
    """Call the factory of a model.

    Raises:
        ModelError: the factory of an installed package fails; the message names the package's model and its arguments.
    """
    factory = get_model_factory(name)
    if name in MODELS.built_in:
        return factory(input_shape, classes, norm, **options)
    try:
        return factory(input_shape, classes, norm, **options)
    except ModelError:
        raise
    except Exception as error:
        arguments = ", ".join(f"{key}: {value}" for key, value in options.items()) or "no options"
        raise ModelError(
            f"the model {name} of an installed package cannot be made for inputs {input_shape}, {classes} classes and "
            f"{arguments}: {type(error).__name__}: {error}"
        ) from error


def _accepts_vocabulary(name: str) -> bool:
    """Return whether the factory of a model has the parameter `vocabulary` or accepts any keyword argument."""
    parameters = signature(get_model_factory(name)).parameters
    accepts_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    return "vocabulary" in parameters or accepts_any


def get_model_factory(name: str) -> Callable[..., nn.Module]:
    """Return the factory of a model, built in or of an installed package.

    Raises:
        ModelError: there is no such model, or the factory of an installed package cannot be loaded.
    """
    info = MODELS.load_info(name)
    factory: Callable[..., nn.Module] = MODELS.load_object(name, None if info is None else info.factory)
    return factory if info is None else partial(factory, **info.arguments)


def check_model_name_and_options(name: str, options: Mapping[str, Any]) -> None:
    """Check the name and the options of a model.

    Raises:
        ModelError: there is no model of this name, or it does not have one of the options.
    """
    problem = find_model_problem(name, set(options) - {"per_token"})  # an option that the task sets
    if problem is not None:
        raise ModelError(problem)
    parameters = signature(get_model_factory(name)).parameters
    for option in options:
        if option not in parameters:
            raise ModelError(f"the model {name} has no option {option!r}: remove it")
