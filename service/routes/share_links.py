"""Routes of the links that show a study to people without an account."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path

from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.problems import ProblemException
from service.schemas.access import ShareLinkCreate, ShareLinkCreated, ShareLinkOut
from service.schemas.base import ListPage
from service.security import ReadableStudy, Reader, WritableStudy

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/studies/{study_id:number}/share-links", tags=["access"], route_class=ApiRoute)


@router.post("", status_code=201, operation_id="create_share_link")
def create_share_link(study: WritableStudy, body: ShareLinkCreate, context: ContextDep) -> ShareLinkCreated:
    """Create a link that shows this study, read-only, without an account. Only this response contains its path.

    The link ends with the access token that created it.
    """
    requested = datetime.now(UTC) + timedelta(days=body.days)
    creator_expiry = context.ledger.tokens.find_token_expiry(study.bearer.token_id)
    expires_at = requested if creator_expiry is None else min(requested, creator_expiry)
    bearer = study.bearer
    create_link = context.ledger.share_links.create_link
    secret, link = create_link(study.id, bearer.account, body.label, expires_at, creator=bearer.token_id)
    _log.info("share link %d of study %d is created by %s", link.id, study.id, bearer.account)
    path = f"/shared/{secret}"
    return ShareLinkCreated(**ShareLinkOut.model_validate(link).model_dump(), path=path, secret=secret)


@router.get("", operation_id="list_share_links")
def list_share_links(study: ReadableStudy, context: ContextDep, _reader: Reader) -> ListPage[ShareLinkOut]:
    """The share links of a study, newest first, without their secrets. Links that ended are listed for 30 days."""
    links = context.ledger.share_links.list_links(study.id)
    return ListPage(items=[ShareLinkOut.model_validate(link) for link in links], next_cursor=None)


@router.delete("/{link_id:number}", status_code=204, operation_id="revoke_share_link")
def revoke_share_link(
    study: WritableStudy, link_id: Annotated[int, Path(description="`id` of a share link")], context: ContextDep
) -> None:
    """Revoke a share link: it shows nothing from now on."""
    if not 0 < link_id < 2**31:
        raise ProblemException(404, "not-found", f"study {study.id} has no link {link_id}")
    context.ledger.share_links.revoke(study.id, link_id)
    _log.info("share link %d of study %d is revoked by %s", link_id, study.id, study.bearer.account)
