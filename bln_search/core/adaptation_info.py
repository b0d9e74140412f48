"""What is known of a method of test-time adaptation without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AdaptationInfo:
    """A method of test-time adaptation. A package registers it in the entry point group `bln_search.adaptations`.

    The service loads this object without torch: the module that defines it must not import torch.

    Attributes:
        factory: Place of the class, as `package.module:name`: a subclass of `bln_search.adaptation.method.Adaptation`.
        own_options: Its options: for each the type of its value, which pydantic checks, such as
            `Annotated[float, Field(gt=0)]`. Their defaults are those of the class.
        reads_outputs_only: Whether it changes outputs alone, and no weight or statistic of the network: arms of one
            configuration then share the forward pass.
        default_configuration: Letters of the statistics over the mini-batch where an arm names no configuration: that
            of its paper, as `F`.
    """

    factory: str
    own_options: Mapping[str, Any] = field(default_factory=dict)
    reads_outputs_only: bool = False
    default_configuration: str = "F"
