"""What is known of a model without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

NormPlacement = Literal["layers", "cells", "cell_output", "cells_and_layers"]
"""A value of `model.normalize`."""


@dataclass(frozen=True)
class ModelInfo:
    """What a model takes and contains. A package registers it in the entry point group `bln_search.model_infos`.

    The service loads this object without torch: the module that defines it must not import torch.

    Attributes:
        factory: Place of the factory, as `package.module:name`, which is imported when a network is built.
        arguments: Arguments of the factory that are not options.
        options: Its options among the keys of `model` that several models have.
        own_options: Its further options, other keys of `model`: for each the type of its value, which pydantic checks,
            such as `Annotated[int, Field(ge=1)]`. Their defaults are those of the factory.
        takes_token_ids: Whether inputs may be token ids.
        takes_several_inputs: Whether an example has several inputs with names.
        norm_placements: Values of `normalize` of a recurrent model, the default first; without `layers`, normalization
            layers are inside cells only. Empty for a model without recurrent layers.
        norms_follow_nonlinearity: Whether normalization layers do not directly follow weights; with an option
            `placement`, unless it is `before`.
        is_stackable: Whether several of its networks can be trained as one program.
        task: The only task that it can be trained for; empty for every task without models of its own.
        data_sets: The only data sets that it takes, and those that name it themselves; empty for all.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    own_options: Mapping[str, Any] = field(default_factory=dict)
    takes_token_ids: bool = False
    takes_several_inputs: bool = False
    norm_placements: tuple[NormPlacement, ...] = ()
    norms_follow_nonlinearity: bool = False
    is_stackable: bool = False
    task: str = ""
    data_sets: frozenset[str] = frozenset()

    @property
    def all_options(self) -> frozenset[str]:
        """All keys of `model` that it takes."""
        return self.options | self.own_options.keys()

    @property
    def is_recurrent(self) -> bool:
        """Whether it has recurrent layers."""
        return bool(self.norm_placements)

    @property
    def default_norm_placement(self) -> NormPlacement:
        """Where normalization layers are if a study does not say it."""
        return self.norm_placements[0] if self.norm_placements else "layers"

    @property
    def has_norms_in_cells_only(self) -> bool:
        """Whether all normalization layers are inside recurrent cells."""
        return self.is_recurrent and "layers" not in self.norm_placements
