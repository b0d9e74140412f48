"""Routes of a study's evaluations and learning curves."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from bln_search.core.configuration import CODE_LETTERS
from bln_search.core.enums import Split
from service.api_route import ApiRoute
from service.context import AppContext, ContextDep
from service.http.pagination import Cursor, Limit, cut_page, decode_cursor_to_page_request
from service.routes.result_filters import (
    ArmFilter,
    BatchSizeFilter,
    EstimateFilter,
    EvaluationStateFilter,
    PositionSort,
    SeedFilter,
)
from service.schemas.base import ListPage, project
from service.schemas.results import Curve, EvaluationOut
from service.security import ReadableStudy, StudyAccess
from service.serializers import serialize_evaluation

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"], route_class=ApiRoute)


@router.get("/evaluations", operation_id="list_evaluations")
def list_evaluations(
    study: ReadableStudy,
    context: ContextDep,
    arm: ArmFilter = None,
    seed: SeedFilter = None,
    configuration: Annotated[
        str | None, Query(pattern=f"^[{CODE_LETTERS}]{{4}}$", description="four letters, like TTFF")
    ] = None,
    estimate: EstimateFilter = None,
    batch_size: BatchSizeFilter = None,
    split: Annotated[Split | None, Query(description="only this split")] = None,
    condition: Annotated[
        str | None,
        Query(
            pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
            description="only this condition of the study; `clean`, or that which ranks submitted results, without one",
        ),
    ] = None,
    state: EvaluationStateFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[EvaluationOut]:
    """Every trained network under every configuration and condition, in the order they were stored."""
    filters = {
        "configuration": configuration,
        "estimate": estimate,
        "batch_size": batch_size,
        "split": split,
        "condition": None if condition is None else _to_stored_condition_name(context, study, condition),
        "state": state,
    }
    trial_filters = {"arm": arm, "seed": seed}
    list_query = {"list": "evaluations", "study": study.id, **filters, **trial_filters}
    page = decode_cursor_to_page_request(cursor, limit, "id", list_query)
    records = context.ledger.results.list_evaluation_page_plus_one(study.id, page, filters, trial_filters)
    records, following_cursor = cut_page(records, page, list_query, lambda record: (record.id,))
    return ListPage(items=[serialize_evaluation(record) for record in records], next_cursor=following_cursor)


def _to_stored_condition_name(context: AppContext, study: StudyAccess, condition: str) -> str:
    """The condition as evaluations have it: empty for the one that ranks."""
    return "" if condition == context.ledger.studies.get(study.id).spec.ranking_condition_name else condition


@router.get("/curves", operation_id="list_curves")
def list_curves(
    study: ReadableStudy,
    context: ContextDep,
    arm: ArmFilter = None,
    seed: SeedFilter = None,
    sort: PositionSort = "position",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[Curve]:
    """Loss and accuracy of training and validation by epoch, a curve for each trial."""
    filters = {"arm": arm, "seed": seed}
    list_query = {"list": "curves", "study": study.id, **filters}
    page = decode_cursor_to_page_request(cursor, limit, sort, list_query, (int, int))
    records = context.ledger.trial_lists.list_learning_curve_page_plus_one(study.id, page, filters)
    curves, following_cursor = cut_page(records, page, list_query, lambda curve: (curve.trial.position, curve.trial.id))
    items = [project(Curve, curve.trial, trial_id=curve.trial.id, epochs=curve.epochs) for curve in curves]
    return ListPage(items=items, next_cursor=following_cursor)
