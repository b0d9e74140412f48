"""Initialization of an own network: scaled weights, and normalization layers that preserve its function."""

from __future__ import annotations

from numbers import Integral
from typing import Literal

from pydantic import ValidationError
from torch import Tensor, nn

from bln_search.api.arguments import check_network_is_module, parse_flag
from bln_search.core.errors import ModelError
from bln_search.specs.pydantic_messages import translate_pydantic_error
from bln_search.specs.sections.initialization import InitializationSpec
from bln_search.training.initialization import scale_weights_and_set_norm_parameters


def initialize(
    network: nn.Module,
    inputs: Tensor,
    *,
    statistics: Literal["bn", "ap2", "none"] = "bn",
    gain: Literal["one", "uniform"] = "one",
    preserve_function: bool = True,
    seed: int = 0,
) -> nn.Module:
    """Scale the first weights of `network` in place, so that its normalization layers change no output at the start.

    In the order of execution, the output of each linear or convolution layer is scaled to mean 0 and deviation 1, by
    its weights and its bias. Then each layer of this package gets γ and β with which the network computes the same as
    without the layer: networks with different methods start with one function. With `statistics="bn"` and
    `convert(network, method="wn", ...)` this is the data-dependent initialization of Salimans & Kingma 2016.

    Args:
        network: With the weights that were drawn; the former γ and β of its layers are lost.
        inputs: A mini-batch (N, ...) of training.
        statistics: `bn`: mean and deviation over the mini-batch. `ap2`: computed from the weights, for inputs of mean 0
            and variance 1. `none`: the weights stay as they are.
        gain: With `bn`: the deviation after scaling is `one`, or `uniform` between 0 and 1 at random.
        preserve_function: Otherwise γ and β stay as they are. Layers of BLN and LN need that.
        seed: Of the random deviations.

    Returns:
        The network.

    Raises:
        ModelError: A layer cannot be scaled, or no γ and β preserve the function. The message names it, and the network
            is unchanged.
        ValueError: Another argument is invalid.
        TypeError: `preserve_function` or `seed` has another type.

    Example:
        network = bln_search.convert(network, method="wn", example_inputs=inputs)
        network = bln_search.initialize(network, inputs)  # then train it
    """
    check_network_is_module(network, "initialize(network, inputs)")
    parse_flag("preserve_function", preserve_function)
    if not isinstance(inputs, Tensor) or inputs.ndim < 2 or len(inputs) < 1:
        raise ModelError("inputs is a mini-batch of training, a tensor (N, ...): call initialize(network, inputs)")
    if not isinstance(seed, Integral):
        raise TypeError(f"seed is a whole number, not {seed!r}")
    try:
        spec = InitializationSpec.model_validate(
            {"statistics": statistics, "gain": gain, "preserve_function": preserve_function}
        )
    except ValidationError as error:
        details = error.errors()[0]
        location = ".".join(map(str, details["loc"]))
        raise ValueError(f"{location} {translate_pydantic_error(details)}".strip()) from None
    scale_weights_and_set_norm_parameters(network, inputs, spec, seed=int(seed))
    return network
