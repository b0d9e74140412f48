"""Identifies trials that cost the same: equal in everything but values that do not change the duration of a step."""

from __future__ import annotations

import json

from bln_search.specs.trial import TrialSpec

_NEUTRAL_KEYS = {
    "arm": frozenset({"name", "epsilon", "momentum", "memory_decay", "lambda", "r_max", "d_max"}),
    "training": frozenset({"learning_rate", "momentum", "weight_decay", "epsilon", "schedule", "epochs"}),
    "model": frozenset({"gain"}),
}
"""Keys whose values do not change the duration of a step; epochs are multiplied."""


def cost_group_key(trial: TrialSpec) -> str:
    """Identifies the group of a trial."""
    sections = [
        {
            key: value
            for key, value in getattr(trial, name).model_dump(mode="json").items()
            if key not in _NEUTRAL_KEYS[name]
        }
        for name in _NEUTRAL_KEYS
    ]
    return json.dumps(sections, sort_keys=True)
