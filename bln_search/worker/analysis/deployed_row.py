"""The row under which networks with external results compute their original outputs."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.records import RowKey
from bln_search.specs.study import StudySpec


def find_deployed_row_of_external_study(study: StudySpec, ranked: Sequence[RowKey]) -> RowKey | None:
    """The first of the ranked rows that is the deployed one, at any mini-batch size; None where there is none."""
    deployed = None if study.external is None else study.external.deployed
    if deployed is None:
        return None
    identity = deployed.configuration, deployed.estimate
    return next((key for key in ranked if (key.configuration, key.estimate) == identity), None)
