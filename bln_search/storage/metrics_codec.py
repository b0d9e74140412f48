"""Metrics of an evaluation as a column of text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bln_search.core.metric_description import NO_METRICS


def encode_metrics(metrics: Mapping[str, float]) -> str | None:
    """A JSON object in the order of the metrics; None without metrics."""
    return json.dumps(dict(metrics), allow_nan=False) if metrics else None


def decode_metrics(text: str | None) -> Mapping[str, float]:
    """Inverse of `encode_metrics`. Evaluations of an earlier version have no metrics."""
    if text is None:
        return NO_METRICS
    metrics: dict[str, float] = json.loads(text)
    return metrics
