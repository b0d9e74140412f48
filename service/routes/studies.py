"""Studies: sent in, listed, changed."""

from __future__ import annotations

import hashlib
import logging
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy import Engine

from bln_search.core import states
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.states import StudyState
from bln_search.core.version import VERSION
from bln_search.specs.study import StudySpec
from bln_search.storage.browse import find_study_line, list_studies, list_version
from bln_search.storage.cleaning import remove_freed
from service.context import Here
from service.etags import has_it, study_tag, tagged, wanted_revision
from service.limits import check_room, checked_plan
from service.paging import Cursor, Limit, cursor_after, read_page
from service.plan import plan_view
from service.problems import RefusedError
from service.schemas import Accepted, ListPage, PlanOut, Study, StudyChange, StudyDetail
from service.security import Changed, Reader, Seen, Writer, visible_owner
from service.views import detail_view, study_view

_log = logging.getLogger(__name__)
router = APIRouter(prefix="/studies", tags=["studies"])
StudySort = Annotated[
    str, Query(pattern="^-?(created|name|priority)$", description="created, name or priority; a minus turns it round")
]
SORT_KEYS: dict[str, tuple[type, ...]] = {"created": (int,), "name": (str, int), "priority": (int, int)}
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1, max_length=200, pattern="^[!-~]+$", description="the same key and study again: the same answer"
    ),
]


@router.post("", status_code=201, operation_id="submit_study", responses={200: {"model": Accepted}})
def submit(
    study: StudySpec, context: Here, writer: Writer, response: Response, idempotency_key: IdempotencyKey = None
) -> Accepted:
    """Send a study in. A worker takes it when its turn comes.

    The same study of the same owner again is the same study: 200 instead of 201.
    """
    checked_plan(study, context.settings)
    if not context.queue.is_known(study, writer.account, idempotency_key):
        check_room(context.settings)
    most = context.settings.most_studies
    submission = context.queue.submit(study, writer.account, idempotency_key, most)
    response.status_code = 201 if submission.new else 200
    response.headers["Location"] = f"/api/v1/studies/{submission.study_id}"
    return Accepted(**_detail(context.engine, submission.study_id).model_dump(), new=submission.new)


@router.post("/validate", operation_id="validate_study")
def validate(study: StudySpec, context: Here, _reader: Reader) -> PlanOut:
    """What a study stands for, without sending it in: trials, evaluations, those without a value, time and room."""
    return plan_view(study, checked_plan(study, context.settings), context.engine)


@router.get("", operation_id="list_studies", response_model=ListPage[Study])
def listed(
    request: Request,
    context: Here,
    reader: Reader,
    state: Annotated[list[StudyState] | None, Query(description="only these states", max_length=10)] = None,
    name: Annotated[str | None, Query(max_length=64, pattern="^[a-z0-9_-]*$", description="part of the name")] = None,
    sort: StudySort = "-created",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Your studies, or, for an admin, everybody's."""
    states = sorted(one.value for one in state or ())
    about: dict[str, Any] = {"list": "studies", "owner": visible_owner(reader), "state": states, "name": name}
    key = SORT_KEYS[sort.removeprefix("-")]
    page = read_page(cursor, limit, sort, about, key)
    version = list_version(context.engine, visible_owner(reader))
    etag = "list-" + hashlib.sha256(repr((about, sort, limit, page.after, version, VERSION)).encode()).hexdigest()[:24]
    known = b"" if has_it(request, etag) else context.boards.answer(etag)
    if known is not None:
        return tagged(request, known, etag)
    lines = list_studies(context.engine, page, owner=visible_owner(reader), states=states, name=name)
    following = None
    if len(lines) > limit:
        last = lines[limit - 1]
        value = (last.id,) if len(key) == 1 else (getattr(last, sort.removeprefix("-")), last.id)
        following = cursor_after(value, sort, about)
    answer = ListPage[Study](items=[study_view(line) for line in lines[:limit]], next_cursor=following)
    body = answer.model_dump_json().encode()
    context.boards.keep_answer(etag, body)
    return tagged(request, body, etag)


@router.get("/{study_id:number}", operation_id="get_study", response_model=StudyDetail)
def get(request: Request, study: Seen, context: Here) -> Response:
    """One study: state, progress, time left, specification."""
    return tagged(request, *study_tag(study.revision, _detail(context.engine, study.id)))


@router.patch("/{study_id:number}", operation_id="change_study")
def change(
    study: Changed,
    changes: StudyChange,
    context: Here,
    if_match: Annotated[str | None, Header(max_length=200, description="the ETag it was read with")] = None,
) -> StudyDetail:
    """Change name, notes or priority. With If-Match only if it is as you read it."""
    if (changes.priority or 0) > 0 and study.bearer.scope != "admin":
        raise RefusedError(403, "scope", "priorities above 0 are for admins")
    real = changes.model_dump(exclude_none=True)
    context.queue.change(study.id, real, wanted_revision(if_match))
    return _detail(context.engine, study.id)


@router.delete("/{study_id:number}", status_code=204, operation_id="delete_study")
def delete(study: Changed, context: Here) -> None:
    """Remove a study with all its results. One that runs must be cancelled first."""
    store = context.settings.checkpoint_store
    try:
        remove_freed(context.ledger, store, context.queue.delete(study.id))
    except (OSError, CheckpointStoreError) as error:  # the study is gone all the same
        _log.warning("study %d is deleted, not all of its checkpoints: %s", study.id, error)


@router.post("/{study_id:number}/cancel", operation_id="cancel_study")
def cancel(study: Changed, context: Here) -> StudyDetail:
    """Stop it for good; what is finished is kept. Running trials are given up within seconds."""
    context.queue.request(study.id, states.Request.CANCEL)
    return _detail(context.engine, study.id)


@router.post("/{study_id:number}/pause", operation_id="pause_study")
def pause(study: Changed, context: Here) -> StudyDetail:
    """Stop it until it is resumed; what is finished is kept."""
    context.queue.request(study.id, states.Request.PAUSE)
    return _detail(context.engine, study.id)


@router.post("/{study_id:number}/resume", operation_id="resume_study")
def resume(study: Changed, context: Here) -> StudyDetail:
    """Put it back into the queue; it goes on where it stopped."""
    context.queue.resume(study.id, context.settings.most_studies)
    return _detail(context.engine, study.id)


@router.post("/{study_id:number}/retry-failed", operation_id="retry_failed")
def retry_failed(study: Changed, context: Here) -> StudyDetail:
    """Try the failed trials of a study again that ended with some."""
    if study.state != StudyState.FAILED:
        raise RefusedError(409, "not-now", f"the study is {study.state}: only one that has failed is tried again")
    context.queue.resume(study.id, context.settings.most_studies)
    return _detail(context.engine, study.id)


def _detail(engine: Engine, study_id: int) -> StudyDetail:
    found = find_study_line(engine, study_id)
    if found is None:
        raise RefusedError(404, "not-found", f"there is no study {study_id}")
    return detail_view(*found)
