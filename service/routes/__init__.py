"""What each address does."""

from service import url_converters

__all__ = ["url_converters"]
