"""The documentation at /docs/: the pages that `make docs` builds, else their texts in a copy of the repository."""

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
_REPOSITORY = _PACKAGE.parent
_STARTS = (
    _REPOSITORY / "build" / "docs" / "index.html",
    _PACKAGE / "documentation" / "index.html",
    _REPOSITORY / "docs" / "index.md",
)
"""The first page: built in a repository, part of the installed package, a text of a repository."""

_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


@lru_cache(maxsize=1)
def find_documentation_start() -> Path | None:
    """Return the first page of the documentation; None where there is none."""
    is_repository = (_REPOSITORY / "mkdocs.yml").is_file()  # else it is the folder of all installed packages
    starts = (page for page in _STARTS if is_repository or page.is_relative_to(_PACKAGE))
    return next((page for page in starts if page.is_file()), None)


def find_document_url(page: str, anchor: str = "") -> str | None:
    """Return the address of a page, and of a place on it; None without documentation."""
    start = find_documentation_start()
    return None if start is None else f"/docs/{page}{start.suffix}{f'#{anchor}' if anchor else ''}"


class DocumentationFiles(StaticFiles):
    """The pages of the documentation. Texts are sent as plain text: browsers would save Markdown to a file.

    Their theme has inline scripts. A page is sent with a policy that allows exactly those scripts, by their digests,
    and nothing from another host.

    Args:
        folder: Folder of the pages.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, html=True)
        self._folder = folder

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; an HTML page with its policy."""
        is_start_of_texts = path == "." and not (self._folder / "index.html").is_file()
        response = await super().get_response("index.md" if is_start_of_texts else path, scope)
        response.headers["Cache-Control"] = "no-cache"
        media_type = response.headers.get("content-type", "")
        if media_type.startswith("text/markdown"):
            response.headers["Content-Type"] = "text/plain; charset=utf-8"
        if media_type.startswith("text/html"):
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
