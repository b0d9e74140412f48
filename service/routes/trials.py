"""Routes of the trials of a study."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from bln_search.core.states import TrialState
from bln_search.storage.ledger import Ledger
from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.pagination import Cursor, Limit, cut_page, decode_cursor_to_page_request
from service.http.problems import ProblemException
from service.routes.result_filters import ArmFilter, MethodFilter, PositionSort, SeedFilter
from service.schemas.base import ListPage
from service.schemas.results import Trial
from service.security import ReadableStudy
from service.serializers import serialize_trial

router = APIRouter(prefix="/studies/{study_id:number}/trials", tags=["results"], route_class=ApiRoute)
TrialId = Annotated[int, Path(description="`id` of a trial")]


@router.get("", operation_id="list_trials")
def list_trials(
    study: ReadableStudy,
    context: ContextDep,
    state: Annotated[TrialState | None, Query(description="only this state")] = None,
    arm: ArmFilter = None,
    method: MethodFilter = None,
    seed: SeedFilter = None,
    sort: PositionSort = "position",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[Trial]:
    """The training runs of a study."""
    filters = {"state": state, "arm": arm, "method": method, "seed": seed}
    trials, following_cursor = read_trial_page(context.ledger, study.id, filters, sort, limit, cursor)
    return ListPage(items=trials, next_cursor=following_cursor)


@router.get("/{trial_id:number}", operation_id="get_trial")
def get_trial(study: ReadableStudy, context: ContextDep, trial_id: TrialId) -> Trial:
    """A training run: state, reason, attempts and checkpoint."""
    return read_trial(context.ledger, study.id, trial_id)


def read_trial_page(
    ledger: Ledger, study_id: int, filters: Mapping[str, Any], sort: str, limit: int, cursor: str | None
) -> tuple[list[Trial], str | None]:
    """Return a page of trials and the cursor of the next page; None on the last page.

    Args:
        ledger: The ledger.
        study_id: The study.
        filters: Required state, arm, method, seed; None for any.
        sort: `position` or `-position`.
        limit: Largest number of trials.
        cursor: Cursor of the page; None for the first page.
    """
    list_query = {"list": "trials", "study": study_id, **filters}
    page = decode_cursor_to_page_request(cursor, limit, sort, list_query, (int, int))
    records = ledger.trial_lists.list_trial_page_plus_one(study_id, page, filters)
    records, following_cursor = cut_page(records, page, list_query, lambda trial: (trial.position, trial.id))
    activity = ledger.trial_lists.read_activity_by_trial([record.id for record in records])
    now = datetime.now(UTC)
    return [serialize_trial(record, activity[record.id], now) for record in records], following_cursor


def read_trial(ledger: Ledger, study_id: int, trial_id: int) -> Trial:
    """Return a trial. Raises ProblemException (404) if the study has none with that id."""
    record = ledger.trial_lists.find_trial(study_id, trial_id) if 0 < trial_id < 2**31 else None
    if record is None:
        raise ProblemException(404, "not-found", f"study {study_id} has no trial {trial_id}")
    return serialize_trial(record, ledger.trial_lists.read_activity_by_trial([record.id])[record.id], datetime.now(UTC))
