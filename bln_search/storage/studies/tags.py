"""Tags of studies."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from bln_search.storage.tables import StudyRow, StudyTagRow


def replace_tags(session: Session, study_id: int, tags: Sequence[str]) -> bool:
    """Replace the tags of a study. Returns whether they were others before."""
    if {*session.scalars(select(StudyTagRow.tag).where(StudyTagRow.study_id == study_id))} == {*tags}:
        return False
    session.execute(delete(StudyTagRow).where(StudyTagRow.study_id == study_id))
    session.add_all(StudyTagRow(study_id=study_id, tag=tag) for tag in tags)
    return True


def count_tags(session: Session, owner: str | None) -> dict[str, int]:
    """The number of studies by tag, in alphabetical order; of all owners if `owner` is None."""
    query = select(StudyTagRow.tag, func.count()).group_by(StudyTagRow.tag).order_by(StudyTagRow.tag)
    if owner is not None:
        query = query.join(StudyRow, StudyRow.id == StudyTagRow.study_id).where(StudyRow.owner == owner)
    return {tag: int(count) for tag, count in session.execute(query)}
