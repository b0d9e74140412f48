"""Routes of studies: submit, list, change, control."""

from __future__ import annotations

import hashlib
import logging
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from bln_search.core.errors import CheckpointStoreError
from bln_search.core.names import NAME_PATTERN
from bln_search.core.states import NEXT_STEPS, StudyState
from bln_search.core.version import VERSION
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger
from bln_search.storage.tokens import TokenKind
from service.admission import check_free_disk_space, check_limits_and_compute_study_size
from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.etags import (
    is_etag_in_if_none_match,
    make_etag_response,
    parse_if_match_revision,
    study_json_and_etag,
)
from service.http.pagination import Cursor, Limit
from service.http.problems import ProblemException
from service.plan_estimate import make_plan_with_estimates
from service.results.study_pages import StudySort, decode_study_cursor_to_page_request, read_page_of_studies
from service.schemas.base import ListPage
from service.schemas.studies import PlanOut, Study, StudyDetail, StudyUpdate, SubmittedStudy, Tag
from service.security import ReadableStudy, Reader, WritableStudy, Writer, visible_owner_or_none_for_admin
from service.serializers import serialize_study, serialize_study_detail

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/studies", tags=["studies"], route_class=ApiRoute)
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1, max_length=200, pattern="^[!-~]+$", description="the same key and study return the same response"
    ),
]


@router.post("", status_code=201, operation_id="submit_study", responses={200: {"model": SubmittedStudy}})
def submit_study(
    study: StudySpec, context: ContextDep, writer: Writer, response: Response, idempotency_key: IdempotencyKey = None
) -> SubmittedStudy:
    """Submit a study. A worker runs it when its turn comes.

    Idempotent: the same study of the same owner returns the existing study, with status 200 instead of 201.
    """
    check_limits_and_compute_study_size(study, context.settings)
    if not context.ledger.queue.is_already_submitted(study, writer.account, idempotency_key):
        check_free_disk_space(context.settings)
    max_studies = context.settings.most_studies
    submission = context.ledger.queue.submit_study(study, writer.account, idempotency_key, max_studies)
    response.status_code = 201 if submission.new else 200
    response.headers["Location"] = f"/api/v1/studies/{submission.study_id}"
    return SubmittedStudy(**_read_study_detail(context.ledger, submission.study_id).model_dump(), new=submission.new)


@router.post("/validate", operation_id="validate_study")
def validate_study(study: StudySpec, context: ContextDep, _reader: Reader) -> PlanOut:
    """The plan of a study, without submitting it: trials, evaluations, undefined ones, time and bytes."""
    return make_plan_with_estimates(study, check_limits_and_compute_study_size(study, context.settings), context.ledger)


@router.get("", operation_id="list_studies", response_model=ListPage[Study])
def list_studies(
    request: Request,
    context: ContextDep,
    reader: Reader,
    state: Annotated[list[StudyState] | None, Query(description="only these states", max_length=10)] = None,
    name: Annotated[str | None, Query(max_length=64, pattern="^[a-z0-9_-]*$", description="part of the name")] = None,
    owner: Annotated[
        str | None, Query(pattern=NAME_PATTERN, description="only studies of this account; others than yours as admin")
    ] = None,
    tag: Annotated[list[Tag] | None, Query(description="only studies with all these tags", max_length=10)] = None,
    sort: StudySort = "-created",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Your studies; for an admin, those of all accounts."""
    if owner not in (None, reader.account) and visible_owner_or_none_for_admin(reader) is not None:
        raise ProblemException(403, "scope", "only an admin can list studies of other accounts")
    owner = visible_owner_or_none_for_admin(reader) if owner is None else owner
    states = sorted(selected.value for selected in state or ())
    list_query: dict[str, Any] = {"list": "studies", "owner": owner, "state": states, "name": name}
    if tag:
        list_query["tag"] = sorted(tag)
    page = decode_study_cursor_to_page_request(cursor, limit, sort, list_query)
    version = context.ledger.study_lists.read_study_list_version(owner)
    etag = (
        "list-"
        + hashlib.sha256(repr((list_query, sort, limit, page.after, version, VERSION)).encode()).hexdigest()[:24]
    )
    body = b"" if is_etag_in_if_none_match(request, etag) else context.responses.find_body(etag)
    if body is not None:
        return make_etag_response(request, body, etag)
    items, following = read_page_of_studies(
        context.ledger, page, list_query, owner=owner, states=states, name=name, tags=tag or ()
    )
    page_out = ListPage[Study](items=[serialize_study(item) for item in items], next_cursor=following)
    body = page_out.model_dump_json().encode()
    context.responses.put_unless_large(etag, body)
    return make_etag_response(request, body, etag)


@router.get("/{study_id:number}", operation_id="get_study", response_model=StudyDetail)
def get_study(request: Request, study: ReadableStudy, context: ContextDep) -> Response:
    """A study: state, progress, estimated time, specification. A share link does not show its owner."""
    detail = _read_study_detail(context.ledger, study.id)
    if study.bearer.kind is TokenKind.SHARE:
        detail = detail.model_copy(update={"owner": ""})
    return make_etag_response(request, *study_json_and_etag(study.revision, detail))


@router.patch("/{study_id:number}", operation_id="change_study")
def change_study(
    study: WritableStudy,
    changes: StudyUpdate,
    context: ContextDep,
    if_match: Annotated[str | None, Header(max_length=200, description="ETag of the study that you read")] = None,
) -> StudyDetail:
    """Change name, title, notes, tags or priority; with If-Match only if it has not changed since you read it."""
    if (changes.priority or 0) > 0 and study.bearer.scope != "admin":
        raise ProblemException(403, "scope", "priorities above 0 are for admins")
    changed_fields = changes.model_dump(exclude_none=True)
    context.ledger.queue.update_study_metadata(
        study.id, changed_fields, parse_if_match_revision(if_match), study.bearer.account
    )
    return _read_study_detail(context.ledger, study.id)


@router.delete("/{study_id:number}", status_code=204, operation_id="delete_study")
def delete_study(study: WritableStudy, context: ContextDep) -> None:
    """Delete a study with all its results. Cancel a running study first."""
    store = context.settings.checkpoint_store
    try:
        files = context.ledger.studies.delete_and_list_unneeded_files(study.id)
        _log.info("study %d (%s, owner %s) is deleted by %s", study.id, study.name, study.owner, study.bearer.account)
        context.ledger.garbage.remove_unreferenced_files(store, files)
    except (OSError, CheckpointStoreError) as error:
        # the study is deleted; `checkpoints clean` removes the files later
        _log.warning("study %d is deleted, but some of its checkpoints are not: %s", study.id, error)


@router.post("/{study_id:number}/cancel", operation_id="cancel_study")
def cancel_study(study: WritableStudy, context: ContextDep) -> StudyDetail:
    """Cancel a study. Finished trials are kept; running trials stop within seconds."""
    context.ledger.queue.cancel(study.id, study.bearer.account)
    detail = _read_study_detail(context.ledger, study.id)
    if detail.state == StudyState.CANCELLED:  # otherwise its worker does so when it stops
        context.ledger.garbage.remove_training_states(study.id, context.settings.checkpoint_store)
    return detail


@router.post("/{study_id:number}/pause", operation_id="pause_study")
def pause_study(study: WritableStudy, context: ContextDep) -> StudyDetail:
    """Pause a study until it is resumed. Finished trials are kept."""
    context.ledger.queue.pause(study.id, study.bearer.account)
    return _read_study_detail(context.ledger, study.id)


@router.post("/{study_id:number}/resume", operation_id="resume_study")
def resume_study(study: WritableStudy, context: ContextDep) -> StudyDetail:
    """Put a study back into the queue; it continues with its unfinished trials."""
    context.ledger.queue.resume(study.id, context.settings.most_studies, study.bearer.account)
    return _read_study_detail(context.ledger, study.id)


@router.post("/{study_id:number}/retry-failed", operation_id="retry_failed")
def retry_failed(study: WritableStudy, context: ContextDep) -> StudyDetail:
    """Run the failed trials of a failed study again."""
    if study.state != StudyState.FAILED:
        hint = NEXT_STEPS[StudyState(study.state)]
        raise ProblemException(
            409, "not-now", f"the study is {study.state}: only a failed study can be retried; {hint}"
        )
    context.ledger.queue.resume(study.id, context.settings.most_studies, study.bearer.account)
    return _read_study_detail(context.ledger, study.id)


def _read_study_detail(ledger: Ledger, study_id: int) -> StudyDetail:
    study = ledger.study_lists.find_study_item(study_id)
    if study is None:
        raise ProblemException(404, "not-found", f"there is no study {study_id}")
    return serialize_study_detail(study)
