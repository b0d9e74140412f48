"""Axes of Plotly drawn by matplotlib: positions of values, ticks and titles."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

LETTER_MM = 1.25
"""Mean width of a letter."""

_TITLE_SHARES = {"x": 0.9, "y": 0.55}
"""Part of the width that a line of a title may take."""

_MAX_TICK_SHARE = 0.6
"""Part of the width that upright tick labels of the x axis may take."""


class ImageAxis:
    """An axis of Plotly: its title and ticks, and the positions of its values."""

    def __init__(self, name: str, options: Mapping[str, Any], values: Sequence[Sequence[Any]]) -> None:
        self.name, self.options = name, options
        listed = options.get("categoryarray") or [value for of_trace in values for value in of_trace]
        self.categories = list(dict.fromkeys(listed)) if options.get("type") == "category" else []
        self._positions = {name: position for position, name in enumerate(self.categories)}

    def title_lines(self, width_mm: float) -> int:
        """Number of lines of the title."""
        return len(self._wrapped_title(width_mm).split("\n"))

    def _wrapped_title(self, width_mm: float) -> str:
        """The title in lines that fit the axis."""
        letters = int(_TITLE_SHARES[self.name] * width_mm / LETTER_MM)
        lines = plain_text(self.options["title"]["text"]).split("\n")
        return "\n".join(textwrap.fill(line, letters) for line in lines)

    @property
    def _labels(self) -> list[str]:
        """The labels of the categories."""
        shown = dict(zip(self.options.get("tickvals", ()), self.options.get("ticktext", ()), strict=True))
        return [plain_text(shown.get(category, category)) for category in self.categories]

    def turned_labels_mm(self, width_mm: float) -> float:
        """Height of labels that stand at 45°; 0 where they have room side by side."""
        longest = max(map(len, self._labels), default=0)
        is_crowded = longest * len(self.categories) * LETTER_MM > _MAX_TICK_SHARE * width_mm
        return longest * LETTER_MM * math.sqrt(0.5) if is_crowded else 0.0

    def positions(self, values: Sequence[Any]) -> list[float]:
        """Positions of the values; NaN for a missing one."""
        if self.categories:
            return [self._positions[value] for value in values]
        return [math.nan if value is None else value for value in values]

    def apply(self, axes: Any, width_mm: float, *, title_at: str) -> None:
        """Set scale, range, ticks and title of the axis of matplotlib. title_at: Where the title stands."""
        name = self.name
        axis, set_scale = getattr(axes, f"{name}axis"), getattr(axes, f"set_{name}scale")
        if self.options.get("type") == "log":
            set_scale("log")
            axis.minorticks_off()
        if self.categories:
            turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
            is_turned = name == "x" and self.turned_labels_mm(width_mm) > 0
            axis.set_ticks(range(len(self._labels)), self._labels, **(turned if is_turned else {}))
            getattr(axes, f"set_{name}lim")(-0.5, len(self._labels) - 0.5)
        elif "tickvals" in self.options:
            axis.set_ticks(self.options["tickvals"], self.options["ticktext"])
        if "range" in self.options:
            getattr(axes, f"set_{name}lim")(*self.options["range"])
        if self.options.get("autorange") == "reversed":
            axis.set_inverted(True)
        if self.options.get("zeroline"):
            (axes.axvline if name == "x" else axes.axhline)(0, color="#808080", linewidth=0.8, zorder=1)
        getattr(axes, f"set_{name}label")(self._wrapped_title(width_mm), loc=title_at)


def plain_text(text: str) -> str:
    """A text of Plotly for matplotlib, which reads no HTML, and formulas between dollar signs."""
    return text.replace("<br>", "\n").replace("$", r"\$")
