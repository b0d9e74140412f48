"""Routes of the REST API."""

from service.http import url_converters

__all__ = ["url_converters"]
