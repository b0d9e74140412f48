"""Arms: a network of its own under a configuration, adapted by a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.adaptation.method import Adaptation
from bln_search.adaptation.output_correction import OutputCorrection, predict_with_features
from bln_search.core.built_in_adaptations import NONE
from bln_search.core.errors import ModelError
from bln_search.core.registry import ADAPTATIONS
from bln_search.core.streams import SelectionData
from bln_search.data.inputs import Inputs
from bln_search.evaluation.network_state import NetworkState
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
from bln_search.norms.statistics import configuration_of_layer_in_row, select_layer_population


@dataclass(frozen=True)
class StreamArm:
    """A method of test-time adaptation on top of a configuration.

    Attributes:
        label: Name in tables.
        row: The configuration, with the population that it reads.
        method: Name of the method.
        options: Of the method; its defaults otherwise.
        selected_on: The data by which options were selected.
    """

    label: str
    row: InferenceRow
    method: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    selected_on: SelectionData = SelectionData.FIXED


def copy_network_under_row(network: nn.Module, row: InferenceRow, populations: Populations) -> nn.Module:
    """Return a copy in evaluation mode, whose normalization layers have the configuration and populations of a row."""
    names = {layer: name for name, layer in get_norms_by_name(network).items()}
    copied = copy_network(network).eval()
    layers = get_norms_by_name(copied)
    for layer, name in names.items():
        estimates = populations.get(layer, {})
        configuration = configuration_of_layer_in_row(row.configuration, row.estimate, estimates)
        population = select_layer_population(configuration, row.estimate, estimates)
        layers[name].configure(configuration, population, row.blend)
    return copied


def make_adaptation(network: nn.Module, method: str, options: Mapping[str, Any]) -> Adaptation:
    """Return a method on a network that it may change.

    Raises:
        ModelError: There is no such method, it lacks an option, or it cannot adapt the network.
    """
    info = ADAPTATIONS.load_info(method)
    if info is None:
        raise ModelError(f"the adaptation {method} of an installed package has no description")
    unknown = sorted(options.keys() - info.own_options.keys())
    if unknown:
        known = ", ".join(info.own_options) or "none"
        raise ModelError(f"the adaptation {method} has no option {unknown[0]!r}; its options: {known}")
    half = {parameter.dtype for parameter in network.parameters()} & {torch.float16, torch.bfloat16}
    if half and method != NONE:
        raise ModelError(
            f"the network is in {half.pop()}, and {method} computes in single precision: call .float() first"
        )
    factory = ADAPTATIONS.load_object(method, info.factory)
    adaptation = factory(network, **options)
    if not isinstance(adaptation, Adaptation):
        raise ModelError(
            f"the adaptation {method} of an installed package is no bln_search.adaptation.method.Adaptation"
        )
    return adaptation


def check_method_adapts_network(network: nn.Module, method: str, options: Mapping[str, Any]) -> None:
    """Raise ModelError unless the method takes the options and can adapt the network, which is not changed."""
    make_adaptation(copy_network(network).eval(), method, options)


class AdaptingArm:
    """An arm that changes weights or statistics of a network of its own."""

    def __init__(self, network: nn.Module, arm: StreamArm, populations: Populations) -> None:
        self._method = make_adaptation(copy_network_under_row(network, arm.row, populations), arm.method, arm.options)

    def predict(self, inputs: Inputs) -> Tensor:
        """Return the logits (n, classes) of a mini-batch, and adapt to it."""
        return self._method.predict(inputs)

    def reset(self) -> None:
        """Return to the state before the stream."""
        self._method.reset()


class SharedPass:
    """The forward pass that arms of one configuration share which change outputs alone.

    What the network keeps from mini-batch to mini-batch, as moving statistics, advances once a mini-batch.
    """

    def __init__(self, network: nn.Module, arms: Mapping[int, StreamArm], populations: Populations) -> None:
        row = next(iter(arms.values())).row
        self._network = copy_network_under_row(network, row, populations)
        self._start = NetworkState(self._network)
        self._corrections: dict[int, OutputCorrection] = {}
        for position, arm in arms.items():
            correction = make_adaptation(self._network, arm.method, arm.options)
            if not isinstance(correction, OutputCorrection):
                raise ModelError(
                    f"the adaptation {arm.method} says that it reads outputs only, and is no OutputCorrection"
                )
            self._corrections[position] = correction

    def compute(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return logits (n, classes) and features (n, d) of a mini-batch."""
        return predict_with_features(self._network, inputs)

    def correct(self, position: int, outputs: Tensor, features: Tensor) -> Tensor:
        """Return the corrected logits (n, classes) of the arm at a position."""
        return self._corrections[position].correct(outputs, features)

    def reset_network(self) -> None:
        """Return the network to its state before the stream."""
        self._start.restore()

    def reset_correction(self, position: int) -> None:
        """Return the arm at a position to its state before the stream."""
        self._corrections[position].reset()
