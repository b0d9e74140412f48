"""What came of a study: trials, ranked table, evaluations, curves, checkpoints."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.states import EvaluationState, TrialState
from bln_search.core.version import VERSION
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.export import flat_row, leaderboard_csv
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.storage.browse import find_checkpoint, list_curves, list_evaluations, list_trials
from bln_search.storage.files import freed_at
from service.checkpoint_files import checked_file
from service.context import Here
from service.etags import has_it, tagged
from service.leaderboard_filters import chosen_rows
from service.paging import Cursor, Limit, cursor_after, no_such_page, read_page
from service.problems import MEDIA_TYPE as PROBLEM
from service.problems import RefusedError
from service.schemas import Curve, Epoch, EvaluationOut, LeaderboardPage, ListPage, Trial
from service.security import Seen
from service.views import evaluation_view, trial_view

router = APIRouter(prefix="/studies/{study_id:number}", tags=["results"])
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "latex": "application/x-latex",
}
_WRITTEN = {"csv": leaderboard_csv, "latex": leaderboard_latex, "markdown": leaderboard_markdown}
ArmFilter = Annotated[str | None, Query(max_length=32, pattern="^[a-z0-9_-]*$", description="label of an arm")]
SeedFilter = Annotated[int | None, Query(ge=0, lt=2**32, description="seed of the trial")]
MethodFilter = Annotated[Method | None, Query(description="normalization of the arm")]
BatchSizeFilter = Annotated[int | None, Query(ge=1, le=1_000_000, description="mini-batch size at inference")]
EstimateFilter = Annotated[PopulationEstimate | None, Query(description="how population statistics were estimated")]
EvaluationStateFilter = Annotated[EvaluationState | None, Query(description="measured, undefined or diverged")]
PositionSort = Annotated[str, Query(pattern="^-?position$", description="place in the study; a minus turns it round")]
BoardSort = Annotated[
    str,
    Query(
        pattern="^-?(rank|validation_loss|validation_accuracy|test_loss|test_accuracy)$",
        description="rank, or a mean; a minus turns it round; rows without that figure come last",
    ),
]


@router.get("/trials", operation_id="list_trials")
def trials(
    study: Seen,
    context: Here,
    state: Annotated[TrialState | None, Query(description="only this state")] = None,
    arm: ArmFilter = None,
    method: MethodFilter = None,
    seed: SeedFilter = None,
    sort: PositionSort = "position",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[Trial]:
    """The training runs of a study."""
    equal = {"state": state, "arm": arm, "method": method, "seed": seed}
    about = {"list": "trials", "study": study.id, **equal}
    page = read_page(cursor, limit, sort, about, (int, int))
    rows = list_trials(context.engine, study.id, page, equal)
    last = rows[limit - 1][0] if len(rows) > limit else None
    following = None if last is None else cursor_after((last.position, last.id), sort, about)
    return ListPage(items=[trial_view(*row) for row in rows[:limit]], next_cursor=following)


@router.get("/evaluations", operation_id="list_evaluations")
def evaluations(
    study: Seen,
    context: Here,
    arm: ArmFilter = None,
    seed: SeedFilter = None,
    configuration: Annotated[str | None, Query(pattern="^[MTF-]{4}$", description="four letters, like TTFF")] = None,
    estimate: EstimateFilter = None,
    batch_size: BatchSizeFilter = None,
    split: Annotated[Split | None, Query(description="only this split")] = None,
    state: EvaluationStateFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[EvaluationOut]:
    """Every trained network under every configuration, in the order they were written down."""
    equal = {
        "configuration": configuration,
        "estimate": estimate,
        "batch_size": batch_size,
        "split": split,
        "state": state,
    }
    trial = {"arm": arm, "seed": seed}
    about = {"list": "evaluations", "study": study.id, **equal, **trial}
    page = read_page(cursor, limit, "id", about)
    rows = list_evaluations(context.engine, study.id, page, equal, trial)
    following = cursor_after((rows[limit - 1][0].id,), "id", about) if len(rows) > limit else None
    return ListPage(items=[evaluation_view(*row) for row in rows[:limit]], next_cursor=following)


@router.get("/curves", operation_id="list_curves")
def curves(
    study: Seen,
    context: Here,
    arm: ArmFilter = None,
    seed: SeedFilter = None,
    sort: PositionSort = "position",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ListPage[Curve]:
    """Losses and accuracies of training and validation by epoch, one curve a trial."""
    equal = {"arm": arm, "seed": seed}
    about = {"list": "curves", "study": study.id, **equal}
    page = read_page(cursor, limit, sort, about, (int, int))
    rows = list_curves(context.engine, study.id, page, equal)
    items = [
        Curve(
            trial_id=trial.id,
            arm=trial.arm,
            seed=trial.seed,
            parameters=trial.parameters,
            epochs=[Epoch.model_validate(epoch) for epoch in epochs],
        )
        for trial, epochs in rows[:limit]
    ]
    last = rows[limit - 1][0] if len(rows) > limit else None
    following = None if last is None else cursor_after((last.position, last.id), sort, about)
    return ListPage(items=items, next_cursor=following)


@router.get(
    "/leaderboard",
    operation_id="get_leaderboard",
    response_model=LeaderboardPage,
    responses={
        200: {
            "content": {
                name: {"schema": {"type": "string"}} for name in ("text/csv", "text/markdown", "application/x-latex")
            }
        }
    },
)
def leaderboard(
    request: Request,
    study: Seen,
    context: Here,
    method: MethodFilter = None,
    arm: ArmFilter = None,
    batch_size: BatchSizeFilter = None,
    estimate: EstimateFilter = None,
    state: EvaluationStateFilter = None,
    on: Annotated[
        Literal["validation", "test"] | None, Query(description="split that decides; by default the study's")
    ] = None,
    sort: BoardSort = "rank",
    output: Annotated[
        Literal["json", "csv", "latex", "markdown"],
        Query(alias="format", description="all but json: every row at once"),
    ] = "json",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The ranked table of configurations. Ranks are those of the whole table, whatever is filtered."""
    filters = {"method": method, "arm": arm, "batch_size": batch_size, "estimate": estimate, "state": state}
    about = {"list": "leaderboard", "study": study.id, "on": on, **filters}
    page = read_page(cursor, limit, sort, about, (int, int))
    start, results = (0, study.results) if page.after is None else (max(0, int(page.after[0])), int(page.after[1]))
    question = [about, sort, output, (page.limit, start) if output == "json" else None]
    etag = _board_tag(study.id, study.revision, results, question)
    media_type = MEDIA_TYPES[output]
    known = b"" if has_it(request, etag) else context.boards.answer(etag)
    if known is not None:
        return tagged(request, known, etag, media_type)
    split = None if on is None else Split(on)
    kept = context.boards.of(study.id, results, split) if page.after is not None else None
    if kept is None and results != study.results:
        raise no_such_page("the study has new results since the page before; leave the cursor out to start again")
    kept = kept or context.boards.get(study.id, study.results, split)
    board = kept.leaderboard
    rows = chosen_rows(kept, filters, sort)
    if output != "json":
        body = _WRITTEN[output](Leaderboard(board.ranked_on, tuple(rows))).encode()
        context.boards.keep_answer(etag, body)
        return tagged(request, body, etag, media_type)
    shown = rows[start : start + limit]
    answer = LeaderboardPage(
        study=study.name,
        id=study.id,
        state=study.state,
        ranked_on=board.ranked_on,
        warning=board.warning,
        rows=[flat_row(row) for row in shown],
        next_cursor=cursor_after((start + limit, kept.results), sort, about) if start + limit < len(rows) else None,
    )
    body = answer.model_dump_json().encode()
    context.boards.keep_answer(etag, body)
    return tagged(request, body, etag, media_type)


def _board_tag(study_id: int, revision: int, results: int, question: list[Any]) -> str:
    """Known before anything is computed: the table changes only with the study's results, and what makes it."""
    digest = hashlib.sha256(repr(question).encode()).hexdigest()[:16]
    return f"{study_id}-{revision}-{results}-{digest}-{VERSION}"


@router.get(
    "/checkpoints/{checkpoint_id:number}",
    operation_id="get_checkpoint",
    response_class=FileResponse,
    responses={
        200: {
            "description": "the weights as safetensors",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        502: {
            "description": "the file is damaged",
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        },
    },
)
def checkpoint(
    study: Seen, checkpoint_id: Annotated[int, Path(description="`checkpoint.id` of a trial")], context: Here
) -> Response:
    """The trained network as a file: safetensors, with the population statistics."""
    found = find_checkpoint(context.engine, study.id, checkpoint_id) if 0 < checkpoint_id < 2**31 else None
    if found is None:
        raise RefusedError(404, "not-found", f"study {study.id} has no checkpoint {checkpoint_id}")
    try:
        file = checked_file(context.settings.checkpoint_store, context.ledger, study.id, found)
    except FileNotFoundError:
        freed = freed_at(context.engine, study.id, found.file)
        why = "is not where checkpoints are kept"
        if freed is not None:
            why = f"was given up on {freed:%Y-%m-%d} to free room; its figures are kept"
        raise RefusedError(404, "file-gone", f"the file {found.file} {why}") from None
    headers = {"ETag": f'"{found.sha256}"'}
    if isinstance(file, pathlib.Path):
        return FileResponse(file, filename=found.file, media_type="application/octet-stream", headers=headers)
    headers["Content-Disposition"] = f'attachment; filename="{found.file}"'
    return Response(file, media_type="application/octet-stream", headers=headers)
