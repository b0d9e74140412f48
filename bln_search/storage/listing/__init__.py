"""Lists for the service: filtered, sorted, one page at a time."""

from bln_search.storage.listing.repository import Listing

__all__ = ["Listing"]
