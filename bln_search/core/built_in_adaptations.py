"""The built-in methods of test-time adaptation, with their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from bln_search.core.adaptation_info import AdaptationInfo

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

BUILT_IN_ADAPTATIONS: Mapping[str, AdaptationInfo] = {
    "lame": AdaptationInfo(
        "bln_search.adaptation.lame:Lame",
        {"affinity": Literal["knn", "rbf", "linear"], "neighbors": Annotated[int, Field(ge=1)]},
        reads_outputs_only=True,
        default_configuration="T",
    ),
    "none": AdaptationInfo("bln_search.adaptation.none:NoAdaptation", reads_outputs_only=True),
    "sar": AdaptationInfo(
        "bln_search.adaptation.sar:Sar",
        {
            "learning_rate": _Positive,
            "margin": _Positive,
            "rho": _Positive,
            "recovery_entropy": _NotNegative,
            "frozen_layers": tuple[str, ...],
        },
    ),
    "tent": AdaptationInfo(
        "bln_search.adaptation.tent:Tent",
        {
            "optimizer": Literal["sgd", "adam"],
            "learning_rate": _Positive,
            "steps": Annotated[int, Field(ge=1, le=100)],
            "episodic": bool,
        },
    ),
}
"""The built-in methods by name."""
