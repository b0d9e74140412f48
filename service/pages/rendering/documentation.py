"""The documentation at /docs/: the pages that `make docs` builds, from the installed package or from the repository."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_PACKAGE = Path(__file__).parents[2]
_BUILT = (_PACKAGE.parent / "build" / "docs", _PACKAGE / "documentation")
"""Where the pages are: built in a repository, or part of the installed package."""

_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


@lru_cache(maxsize=1)
def find_documentation_folder() -> Path | None:
    """Return the folder of the built pages; None if they are not built."""
    return next((folder for folder in _BUILT if (folder / "index.html").is_file()), None)


class DocumentationFiles(StaticFiles):
    """The pages of the documentation.

    Their theme has inline scripts. A page is sent with a policy that allows exactly those scripts, by their digests,
    and nothing from another host.

    Args:
        folder: Folder of the built pages.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True)
        self._folder = folder

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; an HTML page with its policy."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        if response.headers.get("content-type", "").startswith("text/html"):
            page = Path(getattr(response, "path", self._folder / "404.html"))
            response.headers["Content-Security-Policy"] = _page_content_security_policy(page, page.stat().st_mtime_ns)
        return response


@lru_cache(maxsize=256)
def _page_content_security_policy(page: Path, _modified: int) -> str:
    """Return the policy of a page: its own inline scripts, the styles that the theme sets, files of this service."""
    digests = {
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in _INLINE_SCRIPT.findall(page.read_bytes())
    }
    scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in sorted(digests))])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
