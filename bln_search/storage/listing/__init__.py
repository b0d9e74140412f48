"""Lists for the service: filtered, sorted, one page at a time."""

from bln_search.storage.listing.page_repository import ListingRepository

__all__ = ["ListingRepository"]
