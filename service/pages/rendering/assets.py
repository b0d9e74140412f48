"""Style sheets and scripts; the one that draws charts is compressed in advance. Pages load nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
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


_ENCODINGS = {"br": "br", "gzip": "gz"}
"""Suffix of the compressed file by encoding, the smaller file first."""


def make_plotly_script_response(accepted: str) -> Response:
    """Return the script in the smallest encoding that the browser accepts. accepted: its `Accept-Encoding`."""
    names = {part.partition(";")[0].strip() for part in accepted.split(",")}
    headers = {"Vary": "Accept-Encoding"}
    for encoding in _ENCODINGS:
        body = _find_compressed_script(encoding) if encoding in names else None
        if body is not None:
            return Response(body, headers={**headers, "Content-Encoding": encoding}, media_type="text/javascript")
    plain = _find_compressed_script("gzip")
    assert plain is not None, "it is compressed here if no file is"
    return Response(gzip.decompress(plain), headers=headers, media_type="text/javascript")


def get_plotly_script_version() -> str:
    """Return the version of the script; a new one changes its URL."""
    bundle = _find_bundle_file("gz")
    if bundle is None:
        return version("plotly")
    match = re.fullmatch(r"plotly-basic-(.+)\.min\.js\.gz", bundle.name)
    assert match is not None, "that is how it was found"
    return f"basic-{match[1]}"


@lru_cache(maxsize=len(_ENCODINGS))
def _find_compressed_script(encoding: str) -> bytes | None:
    """Return the compressed script; None where it was not compressed in this encoding."""
    file = _find_bundle_file(_ENCODINGS[encoding])
    if file is not None:
        return file.read_bytes()
    return gzip.compress(_complete_script_file().read_bytes(), 6) if encoding == "gzip" else None


def _find_bundle_file(suffix: str) -> Path | None:
    return next(iter(_FOLDER.glob(f"plotly-basic-*.min.js.{suffix}")), None)


def _complete_script_file() -> Path:
    """Return the script of the installed package."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
