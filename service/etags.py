"""Answers that are not sent again while nothing has changed."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response
from pydantic import BaseModel

from service.problems import RefusedError


def tagged(request: Request, body: bytes, etag: str, media_type: str = "application/json") -> Response:
    """The body with its tag, or 304 where the caller has it already."""
    headers = {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache"}
    if has_it(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def has_it(request: Request, etag: str) -> bool:
    """Does the caller say that it has the answer of this tag?"""
    given = request.headers.get("if-none-match", "")
    return any(one.strip().removeprefix("W/") in (f'"{etag}"', "*") for one in given.split(","))


def study_tag(revision: int, model: BaseModel) -> tuple[bytes, str]:
    """A study as JSON, and its tag: the revision that a change must name, then a digest of the whole."""
    body = model.model_dump_json().encode()
    return body, f"{revision}-{hashlib.sha256(body).hexdigest()[:16]}"


def wanted_revision(if_match: str | None) -> int | None:
    """The revision in an If-Match header; None where any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    revision = if_match.strip().strip('"').partition("-")[0]
    if not revision.isascii() or not revision.isdigit() or len(revision) > 9:
        raise RefusedError(412, "changed", "If-Match is not a tag of a study; read it again")
    return int(revision)
