"""URL converters of the routes."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class DatabaseIdConvertor(Convertor[int]):
    """A database id: up to ten ASCII digits."""

    regex = "[0-9]{1,10}"

    def convert(self, value: str) -> int:
        """Parse the path segment."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Format the path segment."""
        return str(value)


register_url_convertor("number", DatabaseIdConvertor())
