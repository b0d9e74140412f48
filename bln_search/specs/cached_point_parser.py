"""Parameters of the points of a search space, each point parsed once."""

from __future__ import annotations

from typing import Any

from bln_search.specs.sections.space import parse_point_parameters


class CachedPointParser:
    """Parameters by name of points that are stored as JSON."""

    def __init__(self) -> None:
        self._by_point: dict[str, dict[str, Any]] = {}

    def __call__(self, point: str) -> dict[str, Any]:
        """Value by name of the parameters of a point; empty for no point."""
        parameters = self._by_point.get(point)
        if parameters is None:
            parameters = self._by_point[point] = parse_point_parameters(point)
        return parameters
