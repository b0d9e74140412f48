"""Print the OpenAPI document: `python -m service.export_openapi > openapi.json`."""

from __future__ import annotations

import json
import sys

from service.app import make_app
from service.openapi import get_openapi_document


def openapi_document_as_json() -> str:
    """Return the OpenAPI document as it is committed."""
    return json.dumps(get_openapi_document(make_app(None)), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_document_as_json())
