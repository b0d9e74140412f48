"""The problem of a study without an analysis."""

from __future__ import annotations

from bln_search.core.states import StudyState
from service.http.problems import ProblemException
from service.security import StudyAccess


def missing_analysis(study: StudyAccess) -> ProblemException:
    """Return the problem: `Retry-After` only if a worker will compute the analysis without a user's request."""
    if study.is_active or study.state == StudyState.COMPLETE:
        detail = "a worker computes the analysis when the study is complete: try again in a second"
        return ProblemException(404, "not-analysed", detail, headers={"Retry-After": "1"})
    return ProblemException(
        404, "no-analysis", f"study {study.id} is {study.state}, and only complete studies are analyzed"
    )
