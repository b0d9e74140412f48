"""What a study asks about per-layer configurations of its trained networks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from bln_search.core.enums import LayerScope, LayerSearch, PopulationEstimate
from bln_search.specs.base import Spec

Pattern = Annotated[str, Field(min_length=1, max_length=200)]


class LayersSpec(Spec):
    """Which per-layer configurations are tried on each trained network, and how; no network is trained again for it.

    scope: `per_layer` chooses a word for each normalization layer, `groups` one for each group of layers, `global` one
    for all. groups: patterns of layer names by the name of a group, as in `early: ["features.*"]`; no layer may
    fit two of them, one that fits none is chosen by itself.
    search: `exact` tries all of them; the others try `evaluations` at most. estimate: where population values come
    from; by default the first one of the arm. folds: parts of the validation split; what is chosen on the others is
    judged on each. keep: of so many best ones the outcomes of single examples are kept.
    width: beginnings that go on in a beam. restarts: how many uniform configurations a coordinate search starts from.
    """

    scope: LayerScope = LayerScope.PER_LAYER
    groups: dict[Annotated[str, Field(min_length=1, max_length=64)], tuple[Pattern, ...]] | None = Field(
        default=None, min_length=1, max_length=64
    )
    search: LayerSearch = LayerSearch.EXACT
    estimate: PopulationEstimate | None = None
    evaluations: Annotated[int, Field(ge=16, le=1_000_000)] = 2_000
    folds: Annotated[int, Field(ge=2, le=20)] = 2
    keep: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    width: Annotated[int, Field(ge=1, le=1_000)] = 8
    restarts: Annotated[int, Field(ge=1, le=1_000)] = 4

    @model_validator(mode="after")
    def _consistent(self) -> LayersSpec:
        if (self.scope is LayerScope.GROUPS) != (self.groups is not None):
            raise ValueError("layers: `groups` and the scope `groups` belong together: give both or neither")
        if self.estimate is PopulationEstimate.MEMORY:
            raise ValueError("layers: memory is read where a configuration says M; name frozen, epoch or moving")
        for group, patterns in (self.groups or {}).items():
            if not patterns:
                raise ValueError(f"layers: the group {group} has no pattern: name the layers it takes")
        return self
