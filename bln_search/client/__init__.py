"""Python client of a service: `Client("http://127.0.0.1:8000", token="bln_...").submit(study)`."""

from bln_search.client.client import Client
from bln_search.client.errors import ServiceError

__all__ = ["Client", "ServiceError"]
