"""Scaling of a network's first weights, and the function that every arm has at the start."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import model_validator

from bln_search.core.method import Method
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.spec_section import SpecSection


class ScalingStatistics(StrEnum):
    """The statistics by which the first weights are scaled.

    Members:
        NONE: The weights stay as they are drawn.
        BN: Mean and deviation over the first mini-batch of training.
        AP2: Mean and deviation computed from the weights.
    """

    NONE = "none"
    BN = "bn"
    AP2 = "ap2"


class InitializationSpec(SpecSection):
    """Scaling of the first weights, and whether all arms of a seed start with the same function.

    Attributes:
        statistics: Layer by layer, the outputs of linear and convolution layers are scaled to mean 0 and deviation 1,
            by mean and deviation over the first mini-batch (`bn`) or computed from the weights (`ap2`); `none` scales
            nothing.
        gain: Deviation of the outputs after scaling by `bn`: `one`, or `uniform` between 0 and 1 at random.
        preserve_function: Set γ and β of the normalization layers so that the network computes the same function as
            without them. All arms of a seed then start with the same function.
    """

    statistics: ScalingStatistics = ScalingStatistics.NONE
    gain: Literal["one", "uniform"] = "one"
    preserve_function: bool = True

    @model_validator(mode="after")
    def _check_gain(self) -> InitializationSpec:
        if self.gain != "one" and self.statistics is not ScalingStatistics.BN:
            raise ValueError(f"gain {self.gain} belongs to the statistics bn, not to {self.statistics}: remove it")
        return self


def check_initialization(spec: InitializationSpec | None, method: Method, model: ModelSpec, batch_size: int) -> None:
    """Raise ValueError where an arm cannot start as the specification says.

    Args:
        spec: The initialization; None for weights as they are drawn.
        method: Of the arm.
        model: Of the study.
        batch_size: Of training.
    """
    if spec is None:
        return
    if spec.preserve_function and method.has_feature_statistics:
        raise ValueError(
            f"training: initialization: {method} has a mean and a deviation of each example, so that no γ and β "
            "preserve the function of the network without normalization: set preserve_function to false, or choose "
            "other methods than ln and bln"
        )
    if model.info.is_recurrent and spec.statistics is not ScalingStatistics.NONE:
        raise ValueError(
            f"training: initialization: statistics {spec.statistics} cannot scale the recurrent layers of "
            f"{model.name}, whose outputs have other statistics at each time step: set statistics to none"
        )
    if model.normalizes_inside_recurrent_cells and spec.preserve_function and method.statistics:
        raise ValueError(
            "training: initialization: inside cells all time steps share γ and β, so that they cannot preserve the "
            "function: set preserve_function to false, or model.normalize to layers"
        )
    needs_batch = method.has_batch_statistics and not method.computes_statistics_from_weights and spec.preserve_function
    if batch_size == 1 and (needs_batch or spec.statistics is ScalingStatistics.BN):
        raise ValueError(
            "training: initialization: the deviation over a mini-batch of one example is 0: set batch_size to at "
            "least 2, or statistics and methods to those that do not read the mini-batch"
        )
