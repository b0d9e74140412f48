"""The built-in methods of test-time adaptation, with their options."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.core.adaptation_info import AdaptationInfo

BUILT_IN_ADAPTATIONS: Mapping[str, AdaptationInfo] = {
    "none": AdaptationInfo("bln_search.adaptation.none:NoAdaptation", reads_outputs_only=True),
}
"""The built-in methods by name."""
