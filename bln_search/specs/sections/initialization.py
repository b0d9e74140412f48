"""Scaling of a network's first weights, and the function that every arm has at the start."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import model_validator

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
