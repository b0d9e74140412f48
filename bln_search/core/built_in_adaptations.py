"""The built-in methods of test-time adaptation, with their options."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from bln_search.core.adaptation_info import AdaptationInfo
from bln_search.core.row_menu import check_menu


class _MenuCheck:
    """A check of the rows of a menu, which loads pydantic where it is used: every command imports this module."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the schema of the type, with the check behind it."""
        core_schema = import_module("pydantic_core").core_schema
        return core_schema.no_info_after_validator_function(check_menu, handler(source))


_Positive = Annotated[float, Gt(0)]
_NotNegative = Annotated[float, Ge(0)]
_Share = Annotated[float, Ge(0), Le(1)]
_Count = Annotated[int, Ge(1)]
_Seed = Annotated[int, Ge(0), Lt(2**32)]

NONE = "none"
"""The method without adaptation."""

BUILT_IN_ADAPTATIONS: Mapping[str, AdaptationInfo] = {
    "chooser": AdaptationInfo(
        "bln_search.adaptation.chooser:Chooser",
        {"menu": Annotated[tuple[str, ...], _MenuCheck()]},
        default_configuration="T",
    ),
    "cotta": AdaptationInfo(
        "bln_search.adaptation.cotta:Cotta",
        {
            "learning_rate": _Positive,
            "teacher_momentum": _Share,
            "restoration": _Share,
            "threshold": _NotNegative,
            "augmentations": Annotated[int, Ge(0), Le(1000)],
            "seed": _Seed,
        },
    ),
    "lame": AdaptationInfo(
        "bln_search.adaptation.lame:Lame",
        {"affinity": Literal["knn", "rbf", "linear"], "neighbors": _Count},
        reads_outputs_only=True,
        default_configuration="T",
    ),
    NONE: AdaptationInfo("bln_search.adaptation.none:NoAdaptation", reads_outputs_only=True, default_configuration="T"),
    "note": AdaptationInfo(
        "bln_search.adaptation.note:Note",
        {
            "learning_rate": _Positive,
            "shrinkage": _NotNegative,
            "momentum": _Share,
            "memory_size": _Count,
            "update_interval": _Count,
            "seed": _Seed,
        },
        default_configuration="T",
    ),
    "rotta": AdaptationInfo(
        "bln_search.adaptation.rotta:Rotta",
        {
            "learning_rate": _Positive,
            "momentum": Annotated[float, Gt(0), Lt(1)],
            "teacher_momentum": _Share,
            "memory_size": _Count,
            "update_interval": _Count,
            "age_weight": _NotNegative,
            "uncertainty_weight": _NotNegative,
            "augment": bool,
            "seed": _Seed,
        },
        default_configuration="T",
    ),
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
            "steps": Annotated[int, Ge(1), Le(100)],
            "episodic": bool,
        },
    ),
}
"""The built-in methods by name."""
