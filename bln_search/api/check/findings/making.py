"""Findings from a cause, its evidence and the variant with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bln_search.api.check.observations import Observations
from bln_search.ranking.network_check import Cause, Finding, Variant
from bln_search.reports.formatting import format_loss

_NAMED_LAYERS = 3
"""Number of layers that a sentence names."""

SMALL_BATCH = 4
"""Largest training mini-batch size that is called small."""

RECALIBRATE = "model = bln_search.recalibrate(model, train_loader)"


def make_finding(
    seen: Observations,
    cause: Cause,
    evidence: str,
    remedy: str,
    *,
    variant: Variant | None = None,
    code: str = "",
    layers: Iterable[str] = (),
    has_effect: bool | None = None,
) -> Finding:
    """A finding, with what its variant recovers. has_effect: by default whether the variant helps."""
    helps = variant is not None and seen.helps(variant)
    return Finding(
        cause=cause,
        evidence=evidence + (_describe_recovery(seen, variant) if variant is not None else ""),
        remedy=remedy,
        code=code,
        layers=tuple(layers),
        variant=variant,
        recovered=None if variant is None else seen.recovery(variant),
        has_effect=helps if has_effect is None else has_effect,
    )


def name_layers(names: Sequence[str]) -> str:
    """Layers by their names: the first ones, and how many more there are."""
    shown = ", ".join(names[:_NAMED_LAYERS])
    more = len(names) - _NAMED_LAYERS
    return f"{'layers' if len(names) > 1 else 'layer'} {shown}{f' and {more} more' if more > 0 else ''}"


def sentence_start(text: str) -> str:
    """The text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def _describe_recovery(seen: Observations, variant: Variant) -> str:
    deployed, row = seen.variants[Variant.DEPLOYED], seen.variants.get(variant)
    if row is None or row.loss is None:
        return ""
    before = "not a finite number" if deployed.loss is None else format_loss(deployed.loss)
    return f" The loss is {before} as deployed, and {format_loss(row.loss)} with {variant}."
