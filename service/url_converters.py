"""Numbers in addresses."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class Number(Convertor[int]):
    """Digits, and no more of them than a database's numbers have."""

    regex = "[0-9]{1,10}"

    def convert(self, value: str) -> int:
        """From an address."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Into one."""
        return str(value)


register_url_convertor("number", Number())
