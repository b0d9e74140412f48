"""Print the description of the API: `python -m service.export_openapi > openapi.json`."""

from __future__ import annotations

import json
import sys

from service.app import make_app
from service.openapi import describe


def document() -> str:
    """The description as it is committed."""
    return json.dumps(describe(make_app(None)), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
