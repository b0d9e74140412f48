"""What each address does."""

from service import numbers

__all__ = ["numbers"]
