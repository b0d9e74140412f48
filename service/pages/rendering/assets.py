"""Style sheets and scripts. Pages load nothing from another host."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.pages.rendering.plotly_script import make_plotly_script_response

_FOLDER = Path(__file__).parents[2] / "static"
_IMMUTABLE = "public, max-age=31536000, immutable"


class StaticAssets(StaticFiles):
    """Files of the pages. The browser caches a URL with a version forever."""

    def __init__(self) -> None:
        super().__init__(directory=_FOLDER)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file of the folder, or Plotly's script."""
        if path == "plotly.js":
            response = make_plotly_script_response(Headers(scope=scope).get("accept-encoding", ""))
        else:
            response = await super().get_response(path, scope)
        is_versioned = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = _IMMUTABLE if is_versioned and response.status_code < 400 else "no-cache"
        return response


@lru_cache(maxsize=1)
def assets_version() -> str:
    """Return a version that changes whenever a file of the folder changes."""
    newest = max(file.stat().st_mtime_ns for file in _FOLDER.iterdir())
    return f"{newest:x}"
