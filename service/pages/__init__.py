"""The web interface: pages rendered on the server from the same functions as the REST API."""

from service.http import url_converters

__all__ = ["url_converters"]
