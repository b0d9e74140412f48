"""Query parameters that select and order results, shared by the routes and the pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from bln_search.core.blend import ESTIMATE_PATTERN
from bln_search.core.method import Method
from bln_search.core.states import EvaluationState
from bln_search.specs.regex_requirements import LEADERBOARD_SORT_PATTERN

ArmFilter = Annotated[str | None, Query(max_length=32, pattern="^[a-z0-9_-]*$", description="label of an arm")]
SeedFilter = Annotated[int | None, Query(ge=0, lt=2**32, description="seed of the trial")]
MethodFilter = Annotated[Method | None, Query(description="normalization of the arm")]
BatchSizeFilter = Annotated[int | None, Query(ge=1, le=1_000_000, description="mini-batch size at inference")]
EstimateFilter = Annotated[
    str | None,
    Query(
        max_length=64,
        pattern=ESTIMATE_PATTERN,
        description="how population statistics were estimated; with the weight of a blend as in frozen@0.1",
    ),
]
EvaluationStateFilter = Annotated[EvaluationState | None, Query(description="measured, undefined or diverged")]
DeterministicFilter = Annotated[
    bool | None,
    Query(description="true: configurations whose outputs are independent of the mini-batch; false: the others"),
]
ConditionFilter = Annotated[
    str | None,
    Query(
        pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="rows that were measured under this condition of the study, or under all: `mean`, `worst`",
    ),
]
ParameterFilters = Annotated[
    list[Annotated[str, Query(max_length=200)]] | None,
    Query(
        max_length=20,
        description="requirements on parameters of the search space: `NAME=VALUE`, `NAME<=NUMBER` or `NAME>=NUMBER`",
    ),
]
PositionSort = Annotated[
    str, Query(pattern="^-?position$", description="position in the study; a minus reverses the order")
]
LeaderboardSort = Annotated[
    str,
    Query(
        pattern=LEADERBOARD_SORT_PATTERN,
        description=(
            "rank, or a mean, under a condition as in test_loss:fog-3, or over conditions as in test_loss:worst; "
            "a metric of the task as in test_r2; "
            "train_loss, train_accuracy, validation_gap and test_gap order studies that evaluate the training split; "
            "a minus reverses the order; rows without a value are last"
        ),
    ),
]
