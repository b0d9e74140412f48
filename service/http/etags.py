"""Entity tags: conditional requests (RFC 9110, section 13)."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response
from pydantic import BaseModel

from service.http.problems import ProblemException


def make_etag_response(request: Request, body: bytes, etag: str, media_type: str = "application/json") -> Response:
    """Return the body with its entity tag, or 304 if the client has it already."""
    headers = {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache"}
    if is_etag_in_if_none_match(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def is_etag_in_if_none_match(request: Request, etag: str) -> bool:
    """Does the If-None-Match header of the request contain this entity tag?"""
    header = request.headers.get("if-none-match", "")
    return any(tag.strip().removeprefix("W/") in (f'"{etag}"', "*") for tag in header.split(","))


def study_json_and_etag(revision: int, model: BaseModel) -> tuple[bytes, str]:
    """Return a study as JSON and its entity tag: the revision, which If-Match must name, then a digest of the JSON."""
    body = model.model_dump_json().encode()
    return body, f"{revision}-{hashlib.sha256(body).hexdigest()[:16]}"


def parse_if_match_revision(if_match: str | None) -> int | None:
    """Return the study's revision in an If-Match header; None if every revision matches.

    Raises:
        ProblemException: 412 if the header is not an entity tag of a study.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    revision = if_match.strip().strip('"').partition("-")[0]
    if not revision.isascii() or not revision.isdigit() or len(revision) > 9:
        raise ProblemException(
            412, "changed", "If-Match is not the entity tag of a study; read the study again and send its ETag"
        )
    return int(revision)
