"""Route that takes results of networks which were trained and evaluated elsewhere."""

from __future__ import annotations

from fastapi import APIRouter, Response

from bln_search.specs.external_results import ExternalResults
from bln_search.specs.problems import Problem
from bln_search.storage.results.external_results import decode_results_and_list_problems
from service.admission import check_free_disk_space
from service.api_route import ApiRoute
from service.context import ContextDep
from service.http.problems import ProblemException, make_invalid_body_problem
from service.routes.studies import IdempotencyKey
from service.schemas.studies import SubmittedStudy
from service.security import Writer
from service.serializers import serialize_study_detail

router = APIRouter(prefix="/studies", tags=["studies"], route_class=ApiRoute)


@router.post("/results", status_code=201, operation_id="submit_results", responses={200: {"model": SubmittedStudy}})
def submit_results(
    results: ExternalResults,
    context: ContextDep,
    writer: Writer,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> SubmittedStudy:
    """Submit results of networks that you trained and evaluated yourself, as a complete study.

    `ranked.to_external_results(name)` in Python makes the body. A worker analyses the study; nothing is trained.
    Idempotent: the same results of the same owner return the existing study, with status 200 instead of 201.
    """
    if len(results.networks) > context.settings.most_trials:
        limit = f"there are {len(results.networks)}; the limit of this service is {context.settings.most_trials}"
        raise make_invalid_body_problem([Problem(("networks",), limit)])
    checked = decode_results_and_list_problems(results)
    if checked.problems:
        raise make_invalid_body_problem(checked.problems)
    check_free_disk_space(context.settings)
    study = results.make_study_spec(checked.sha256)
    submission = context.ledger.external.submit_complete_study(
        study, checked.evaluations, writer.account, idempotency_key
    )
    response.status_code = 201 if submission.new else 200
    response.headers["Location"] = f"/api/v1/studies/{submission.study_id}"
    item = context.ledger.study_lists.find_study_item(submission.study_id)
    if item is None:
        raise ProblemException(404, "not-found", f"study {submission.study_id} was deleted meanwhile")
    return SubmittedStudy(**serialize_study_detail(item).model_dump(), new=submission.new)
