"""Style sheets, scripts and Plotly. Pages load nothing from another host."""

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

_FOLDER = Path(__file__).parents[2] / "static"
_IMMUTABLE = "public, max-age=31536000, immutable"


class StaticAssets(StaticFiles):
    """Files of the pages. The browser caches a URL with a version forever."""

    def __init__(self) -> None:
        super().__init__(directory=_FOLDER)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file of the folder, or Plotly's script."""
        if path == "plotly.js":
            accepts_gzip = "gzip" in Headers(scope=scope).get("accept-encoding", "")
            body = _gzipped_plotly() if accepts_gzip else gzip.decompress(_gzipped_plotly())
            headers = {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if accepts_gzip else {})}
            response = Response(body, headers=headers, media_type="text/javascript")
        else:
            response = await super().get_response(path, scope)
        is_versioned = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = _IMMUTABLE if is_versioned and response.status_code < 400 else "no-cache"
        return response


@lru_cache(maxsize=1)
def _gzipped_plotly() -> bytes:
    """Compress the script of the installed Plotly, once. Plotly itself is not imported."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return gzip.compress(file.read_bytes(), 6)


def plotly_version() -> str:
    """Return the version of Plotly."""
    return version("plotly")


@lru_cache(maxsize=1)
def assets_version() -> str:
    """Return a version that changes whenever a file of the folder changes."""
    newest = max(file.stat().st_mtime_ns for file in _FOLDER.iterdir())
    return f"{newest:x}"
