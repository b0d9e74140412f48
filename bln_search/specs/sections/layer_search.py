"""The search of per-layer configurations on the trained networks of a study."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
from bln_search.specs.spec_section import SpecSection

Pattern = Annotated[str, Field(min_length=1, max_length=200)]


class LayerSearchSpec(SpecSection):
    """Search of per-layer configurations on each trained network, without further training.

    Attributes:
        scope: `per_layer`, `groups` of layers that share a configuration, or `global`: one for all layers.
        groups: Patterns of layer names by the name of a group, as in `early: ["features.*"]`, with the scope `groups`.
            A layer may match the patterns of one group only; a layer that matches none has its own configuration.
        search: `exact` evaluates all configurations, the other searches at most `evaluations`.
        estimate: Source of population values; by default the first estimate of the arm.
        evaluations: Budget: maximum number of evaluations for each selection; ignored by `exact`.
        folds: Number of cross-validation folds of the validation split; each is evaluated under the configuration
            selected on the others.
        keep: Number of best configurations whose outcomes of single examples are stored.
        width: Beam width of `beam`.
        restarts: Number of uniform configurations from which `coordinate` starts.
    """

    scope: LayerScope = LayerScope.PER_LAYER
    groups: dict[Annotated[str, Field(min_length=1, max_length=64)], tuple[Pattern, ...]] | None = Field(
        default=None, min_length=1, max_length=64
    )
    search: LayerSearchAlgorithm = LayerSearchAlgorithm.EXACT
    estimate: PopulationEstimate | None = None
    evaluations: Annotated[int, Field(ge=16, le=1_000_000)] = 2_000
    folds: Annotated[int, Field(ge=2, le=20)] = 2
    keep: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    width: Annotated[int, Field(ge=1, le=1_000)] = 8
    restarts: Annotated[int, Field(ge=1, le=1_000)] = 4

    @model_validator(mode="after")
    def _check_option_combinations(self) -> LayerSearchSpec:
        if (self.scope is LayerScope.GROUPS) != (self.groups is not None):
            raise ValueError("layers: `groups` and the scope `groups` belong together: give both or neither")
        if self.estimate is not None and self.estimate.has_own_source_letter:
            raise ValueError(
                "layers: configurations with M, L and C read the memory without naming it; name frozen, epoch or moving"
            )
        for group, patterns in (self.groups or {}).items():
            if not patterns:
                raise ValueError(f"layers: the group {group} has no pattern: name its layers")
        return self
