"""Styles, scripts and Plotly, served from here: nothing is fetched from another host."""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_FOLDER = Path(__file__).parents[1] / "static"
_FOR_EVER = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """Files of the pages; those asked for by version are kept by the browser."""

    def __init__(self) -> None:
        super().__init__(directory=_FOLDER)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, or Plotly."""
        if path == "plotly.js":
            zipped = "gzip" in Headers(scope=scope).get("accept-encoding", "")
            body = _plotly() if zipped else gzip.decompress(_plotly())
            headers = {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if zipped else {})}
            answer = Response(body, headers=headers, media_type="text/javascript")
        else:
            answer = await super().get_response(path, scope)
        versioned = b"v=" in scope.get("query_string", b"")
        answer.headers["Cache-Control"] = _FOR_EVER if versioned and answer.status_code < 400 else "no-cache"
        return answer


@lru_cache(maxsize=1)
def _plotly() -> bytes:
    """The script of the installed Plotly, zipped once. Plotly itself is not imported."""
    found = find_spec("plotly")
    assert found is not None
    assert found.submodule_search_locations
    file = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return gzip.compress(file.read_bytes(), 6)


def plotly_version() -> str:
    """Of the script."""
    return version("plotly")


@lru_cache(maxsize=1)
def assets_version() -> str:
    """Changes with every file."""
    newest = max(file.stat().st_mtime_ns for file in _FOLDER.iterdir())
    return f"{newest:x}"
