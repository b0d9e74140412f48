"""Pages of share links: the owner's list of them, and the address that a visitor opens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from bln_search.storage.share_links import MAX_DAYS
from service.context import ContextDep
from service.pages.study_head import render_study_page
from service.security import SHARE_COOKIE, WritableStudy, authenticate_share_link, is_sent_over_tls

router = APIRouter(include_in_schema=False)
_COOKIE_SECONDS = 2 * MAX_DAYS * 86_400
"""Longer than any link is valid, so that a visitor of an ended link is told that it ended."""


@router.get("/studies/{study_id:number}/share")
def share_links_page(request: Request, study: WritableStudy, context: ContextDep) -> HTMLResponse:
    """The share links of a study, and a form for a new one."""
    now = datetime.now(UTC)
    links = context.ledger.share_links.list_links(study.id)
    return render_study_page(
        request,
        "share.html",
        context,
        study,
        max_days=MAX_DAYS,
        links=[(link, link.is_valid(now)) for link in links],
    )


@router.get("/shared/{secret}")
def open_shared_study(
    request: Request, secret: Annotated[str, Path(max_length=200)], context: ContextDep
) -> RedirectResponse:
    """Show the study of a link: its secret moves into cookies that are sent for this study only."""
    bearer = authenticate_share_link(request, context, secret)
    response = RedirectResponse(f"/studies/{bearer.study_id}", 303)
    for prefix in ("", "/api/v1"):
        response.set_cookie(
            SHARE_COOKIE,
            secret,
            max_age=_COOKIE_SECONDS,
            path=f"{prefix}/studies/{bearer.study_id}",
            httponly=True,
            samesite="lax",  # a link is opened from a message on another site
            secure=is_sent_over_tls(request),
        )
    return response
