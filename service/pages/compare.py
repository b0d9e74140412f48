"""Page that compares studies: verdict, keys that differ, rows with the same configuration side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from bln_search.core.enums import Split
from bln_search.ranking.selection.cross_study import SharedRow, compare_best_rows_of_studies, match_rows_between_studies
from bln_search.reports.charts.search_progress import has_sampler
from bln_search.reports.sentences.study_comparison import best_rows_difference_sentence, shared_rows_sentence
from bln_search.specs.sections.point_labels import find_distinct_point_digits, make_label_by_distinct_point
from bln_search.specs.spec_differences import list_key_differences
from bln_search.storage.listing.studies import StudyListItem
from bln_search.storage.pagination import PageRequest
from bln_search.storage.tokens import Bearer
from service.caching.leaderboard_cache import CachedLeaderboard
from service.context import AppContext, ContextDep
from service.pages.compare_charts import MAX_STUDIES, SplitChoice, Studies, get_leaderboards_of_studies
from service.pages.rendering.templates import make_viewer_variables, render_page_response
from service.security import Reader, visible_owner_or_none_for_admin

router = APIRouter(include_in_schema=False)
_MAX_ROWS = 100
_MAX_TESTED_ROWS = 1000
"""Number of rows that the verdict counts; a page shows fewer."""

_MAX_FOUND = 12
"""Studies that are offered to be added."""

_MAX_ID = 2**31


@router.get("/compare")
def study_comparison_page(
    request: Request,
    context: ContextDep,
    reader: Reader,
    study: Studies = None,
    split: SplitChoice = "validation",
    find: Annotated[str, Query(max_length=64)] = "",
) -> HTMLResponse:
    """Compare two to six studies; offer studies to add by a part of their name."""
    study_ids = list(dict.fromkeys(study or ()))
    shared: dict[str, Any] = {
        "viewer": make_viewer_variables(reader),
        "chosen": _list_chosen_studies(context, reader, study_ids),
        "addable": _list_studies_to_add(context, reader, find, study_ids),
        "find": find.strip(),
        "ids": study_ids,
        "split": split,
        "most": MAX_STUDIES,
    }
    if not 2 <= len(study_ids) <= MAX_STUDIES:
        advice = f"Choose two to {MAX_STUDIES} studies." if study_ids else None
        empty: dict[str, Any] = {"boards": [], "rows": [], "found": 0, "verdicts": [], "differences": []}
        return render_page_response(request, "compare.html", advice=advice, point_labels={}, **empty, **shared)
    boards = get_leaderboards_of_studies(context, reader, study_ids)
    tested, found = match_rows_between_studies(
        [board.losses[Split(split)] for board in boards.values()], _MAX_TESTED_ROWS
    )
    return render_page_response(
        request,
        "compare.html",
        charts=True,
        boards=list(boards.items()),
        has_search=any(has_sampler(board.spec) for board in boards.values()),
        rows=tested[:_MAX_ROWS],
        point_labels=make_label_by_distinct_point(row.key.point for row in tested[:_MAX_ROWS]),
        found=found,
        verdicts=_list_study_verdicts(boards, tested, found, Split(split)),
        differences=list_key_differences([board.spec for board in boards.values()]),
        advice=None if tested else "These studies have no configuration in common that is measured in two of them.",
        **shared,
    )


def _list_study_verdicts(
    boards: dict[int, CachedLeaderboard], rows: list[SharedRow], found: int, split: Split
) -> list[str]:
    """Return a verdict for each study after the first one."""
    digits = find_distinct_point_digits(row.key.point for row in rows)
    names = [f"{study_id}: {board.spec.name}" for study_id, board in boards.items()]
    losses = [board.losses[split] for board in boards.values()]
    verdicts = []
    for index in range(1, len(boards)):
        best = compare_best_rows_of_studies(losses[0], losses[index])
        sentences = [
            None
            if best is None
            else best_rows_difference_sentence(names[0], names[index], split, best, point_digits=digits),
            shared_rows_sentence(rows, index, has_more=found > len(rows)),
        ]
        verdicts.append(" ".join(sentence for sentence in sentences if sentence))
    return [verdict for verdict in verdicts if verdict]


def _list_chosen_studies(context: AppContext, reader: Bearer, study_ids: list[int]) -> list[StudyListItem]:
    """Return the chosen studies that the reader can see, in the order in which they were chosen."""
    ids = [study_id for study_id in study_ids[: MAX_STUDIES + 1] if 0 < study_id < _MAX_ID]
    page = PageRequest(MAX_STUDIES + 1, "-created")
    items = (
        context.ledger.study_lists.list_study_page_plus_one(
            page, owner=visible_owner_or_none_for_admin(reader), ids=ids
        )
        if ids
        else []
    )
    return sorted(items, key=lambda item: study_ids.index(item.id))


def _list_studies_to_add(context: AppContext, reader: Bearer, name: str, chosen: list[int]) -> list[StudyListItem]:
    """Return the newest studies whose name contains a text, without the chosen ones."""
    pattern = name.strip().lower().replace("\0", "?")  # Postgres rejects NUL; no name contains either character
    page = PageRequest(_MAX_FOUND + MAX_STUDIES, "-created")
    items = context.ledger.study_lists.list_study_page_plus_one(
        page, owner=visible_owner_or_none_for_admin(reader), name=pattern or None
    )
    return [item for item in items if item.id not in chosen][:_MAX_FOUND]
