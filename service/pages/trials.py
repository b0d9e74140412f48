"""Pages of the trials of a study: the list, and one trial with its attempts, curve and events."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.states import StudyState, TrialState
from bln_search.reports.charts.curves import TrialLearningCurve, learning_curves_chart
from bln_search.specs.records import encode_point_as_json
from bln_search.specs.sections.point_labels import make_label_by_distinct_point
from bln_search.storage.pagination import PageRequest
from service.context import ContextDep
from service.http.pagination import Cursor
from service.pages.live import log_line_variables
from service.pages.rendering.chart_responses import DrawnChart, add_chart_routes
from service.pages.study_head import render_study_page
from service.routes.result_filters import ArmFilter
from service.routes.trials import TrialId, read_trial, read_trial_page
from service.security import ReadableStudy

router = APIRouter(prefix="/studies/{study_id:number}/trials", include_in_schema=False)
_PAGE_SIZE = 50
_MAX_EVENTS = 200


@router.get("")
def trials_page(
    request: Request,
    study: ReadableStudy,
    context: ContextDep,
    state: Annotated[TrialState | Literal[""], Query()] = "",
    arm: ArmFilter = None,
    cursor: Cursor = None,
) -> HTMLResponse:
    """A page of the trials, in the order of the study."""
    filters = {"state": state or None, "arm": arm or None}
    trials, next_cursor = read_trial_page(context.ledger, study.id, filters, "position", _PAGE_SIZE, cursor)
    labels = make_label_by_distinct_point(encode_point_as_json(trial.parameters) for trial in trials)
    counts = context.ledger.trial_lists.count_trials_by_arm_and_state(study.id)
    return render_study_page(
        request,
        "trials.html",
        context,
        study,
        trials=trials,
        point_labels={trial.id: labels[encode_point_as_json(trial.parameters)] for trial in trials},
        filters={name: value for name, value in filters.items() if value},
        arms=sorted(counts),
        states=[choice for choice in TrialState if any(choice in of_arm for of_arm in counts.values())],
        total=sum(sum(of_arm.values()) for of_arm in counts.values()),
        is_first_page=cursor is None,
        next_cursor=next_cursor,
    )


@router.get("/{trial_id:number}")
def trial_detail_page(request: Request, study: ReadableStudy, context: ContextDep, trial_id: TrialId) -> HTMLResponse:
    """One trial: why it ended as it did, its attempts, curve and events."""
    trial = read_trial(context.ledger, study.id, trial_id)
    records = context.ledger.events.list_newest_events(study.id, _MAX_EVENTS + 1, trial_id=trial.id)
    return render_study_page(
        request,
        "trial.html",
        context,
        study,
        charts=True,
        trial=trial,
        can_retry=trial.state is TrialState.FAILED and study.state == StudyState.FAILED,
        has_earlier_events=len(records) > _MAX_EVENTS,
        **log_line_variables(context.ledger, records[-_MAX_EVENTS:]),
    )


def _draw_trial_learning_curve(study: ReadableStudy, context: ContextDep, trial_id: TrialId) -> DrawnChart:
    """Losses by epoch."""
    trial = read_trial(context.ledger, study.id, trial_id)
    (curve,) = context.ledger.trial_lists.list_learning_curve_page_plus_one(
        study.id, PageRequest(1, "position"), {"id": trial.id}
    )
    unit = context.ledger.studies.get(study.id).spec.loss_description.unit
    curves = [TrialLearningCurve(trial.arm, encode_point_as_json(trial.parameters), trial.seed, curve.epochs)]
    chart = learning_curves_chart(curves, 1, unit=unit)
    return DrawnChart(chart, f"study-{study.id}-trial-{trial_id}", "no epoch of this trial has ended")


add_chart_routes(router, "/{trial_id:number}/curve", _draw_trial_learning_curve)
