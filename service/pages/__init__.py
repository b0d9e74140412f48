"""The pages: what people see in a browser. Server-rendered; every figure comes from the same tables as the REST API."""

from service import url_converters

__all__ = ["url_converters"]
