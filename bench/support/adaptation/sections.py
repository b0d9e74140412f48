"""The streams and arms of the bench of adaptation: what each section runs on one network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.support.adaptation.stream_data import CORRUPTIONS
from bln_search.api.streams.evaluate import StreamOptions

SOURCE, MINI_BATCH, BLEND, MOVING = "source", "mini-batch", "blend N16", "moving 0.9"
TENT, SAR, LAME, ROTTA, NOTE = "TENT", "SAR", "LAME", "RoTTA", "NOTE"


def plain_arm(label: str, configuration: str, weight: float | str | None = None) -> dict[str, Any]:
    """An arm without adaptation."""
    arm = {"name": "none", "label": label, "configuration": configuration}
    return arm if weight is None else {**arm, "weight": weight}


PLAIN = (
    plain_arm(SOURCE, "T"),
    plain_arm(MINI_BATCH, "F"),
    plain_arm(BLEND, "B", "N16"),
    plain_arm(MOVING, "E", 0.9),
)
METHODS = (
    {"name": "tent", "label": TENT},
    {"name": "sar", "label": SAR},
    {"name": "lame", "label": LAME},
    {"name": "rotta", "label": ROTTA},
    {"name": "note", "label": NOTE},
)
CANDIDATES = (
    plain_arm(SOURCE, "T"),
    plain_arm(MINI_BATCH, "F"),
    {**plain_arm("configuration", "T"), "candidates": {"configuration": ["TT--", "TF--", "FT--", "FF--"]}},
    {**plain_arm("blend", "B", 0.5), "candidates": {"weight": ["N4", "N16", "N64"]}},
    {**plain_arm("moving", "E", 0.9), "candidates": {"weight": [0.8, 0.9, 0.98]}},
    {"name": "tent", "label": TENT, "candidates": {"learning_rate": [1e-4, 1e-3, 1e-2]}},
)
SMALL_BATCH_ARMS = (
    plain_arm(SOURCE, "T"),
    plain_arm(MINI_BATCH, "F"),
    plain_arm(BLEND, "B", "N16"),
    plain_arm("moving 0.9", "E", 0.9),
    plain_arm("moving 0.98", "E", 0.98),
    plain_arm("moving 0.99", "E", 0.99),
)
SMALL_BATCH_CONDITIONS = ("gaussian_noise", "defocus_blur", "fog", "contrast", "jpeg")


@dataclass(frozen=True)
class Section:
    """Arms on streams.

    Attributes:
        arms: The arms.
        stream: The streams.
        images: Number of test images of each condition.
        conditions: The conditions.
        selects: Whether candidates are selected on source data, on held-out conditions and by test labels.
        selection_images: Number of images of each condition of a selection.
    """

    arms: tuple[dict[str, Any], ...]
    stream: StreamOptions
    images: int
    conditions: tuple[str, ...] = CORRUPTIONS
    selects: bool = False
    selection_images: int = 128

    def stream_of_network(self, number: int) -> StreamOptions:
        """The streams of a network, which has orders of its own."""
        return {**self.stream, "seed": number}

    def scaled(self, images: int, conditions: int, orders: int) -> Section:
        """A smaller section with at most these numbers."""
        stream: StreamOptions = {**self.stream, "orders": min(orders, self.stream.get("orders", 1))}
        return Section(
            self.arms,
            stream,
            min(images, self.images),
            self.conditions[:conditions],
            self.selects,
            min(images, self.selection_images),
        )


SECTIONS: dict[str, Section] = {
    "shuffled": Section((*PLAIN, *METHODS), {"order": "shuffled", "batch_size": 64, "orders": 3}, 384),
    "by_label": Section((*PLAIN, *METHODS), {"order": "by_label", "batch_size": 64, "orders": 3}, 192),
    "passes": Section(
        (plain_arm(MINI_BATCH, "F"), {"name": "tent", "label": TENT}), {"batch_size": 64, "orders": 3, "passes": 3}, 192
    ),
    "selection": Section(CANDIDATES, {"order": "shuffled", "batch_size": 64, "orders": 2}, 128, selects=True),
    **{
        f"batch_{size}": Section(
            SMALL_BATCH_ARMS,
            {"order": {"dirichlet": 0.1}, "batch_size": size, "orders": 3},
            60,
            SMALL_BATCH_CONDITIONS,
        )
        for size in (1, 2, 4)
    },
}
"""The sections by name."""
