"""The row under which networks with external results compute their original outputs."""

from __future__ import annotations

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import Comparison
from bln_search.specs.study import StudySpec


def find_deployed_row_of_external_study(study: StudySpec, comparison: Comparison) -> RowKey | None:
    """The compared row of lowest loss that is the deployed one, at any mini-batch size; None where there is none."""
    deployed = None if study.external is None else study.external.deployed
    if deployed is None:
        return None
    identity = deployed.configuration, deployed.estimate
    keys = (row.key for row in comparison.rows)
    return next((key for key in keys if (key.configuration, key.estimate) == identity), None)
