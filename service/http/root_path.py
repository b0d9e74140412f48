"""The path under which a reverse proxy serves the application, such as `/bln`.

Inside the application there is none: requests lose it, the addresses in headers and pages of responses gain it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from starlette.datastructures import MutableHeaders
from starlette.types import Scope

ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
"""Of the request that is handled; empty for none."""

_ADDRESS_IN_PAGE = re.compile(r'(\s(?:href|src|action|data-chart|data-source)=")(?=/(?!/))')
_TAG = re.compile(r"<[^<>]+>")
_PATH_OF_COOKIE = re.compile(rb"(?i)(;\s*path=)(?=/)")


def enter_root_path(scope: Scope, root_path: str) -> Scope:
    """Return a request without the root path, which the proxy may have removed already, and note it."""
    ROOT_PATH.set(root_path)
    path = scope["path"]
    if root_path and f"{path}/".startswith(f"{root_path}/"):
        return {**scope, "path": path.removeprefix(root_path) or "/"}
    return scope


def add_root_path_to_headers(headers: MutableHeaders) -> None:
    """Add the root path to the address of a redirect and to the paths of cookies."""
    root_path = ROOT_PATH.get()
    if not root_path:
        return
    location = headers.get("location", "")
    if location.startswith("/"):
        headers["location"] = root_path + location
    headers.raw[:] = [
        (name, _PATH_OF_COOKIE.sub(rb"\1" + root_path.encode(), value) if name == b"set-cookie" else value)
        for name, value in headers.raw
    ]


def add_root_path_to_page(html: str) -> str:
    """Add the root path to the addresses in the tags of a page, or of a part of one; texts stay as they are."""
    root_path = ROOT_PATH.get()
    if not root_path:
        return html
    return _TAG.sub(lambda tag: _ADDRESS_IN_PAGE.sub(rf"\g<1>{root_path}", tag[0]), html)
