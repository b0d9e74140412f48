"""Tags of studies."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from bln_search.core.tags import check_and_sort_unique_tags
from bln_search.storage.tables import StudyTagRow

TAG_CHANGES = ("tags", "remove_tags", "add_tags")
"""Changes of the tags of a study, in the order in which they are applied: `tags` replaces all."""


def change_tags(session: Session, study_id: int, changes: Mapping[str, Collection[str]]) -> bool:
    """Change the tags of a study whose row the transaction has locked.

    Args:
        session: An open session.
        study_id: The study.
        changes: Tags by change (`TAG_CHANGES`). Tags to remove that the study lacks are ignored.

    Returns:
        Whether the tags were others before.

    Raises:
        TagError: A tag is invalid, or there are too many.
    """
    present = set(session.scalars(select(StudyTagRow.tag).where(StudyTagRow.study_id == study_id)))
    kept = {*changes.get("tags", present)} - {*changes.get("remove_tags", ())}
    following = {*check_and_sort_unique_tags(kept | {*changes.get("add_tags", ())})}
    of_study = StudyTagRow.study_id == study_id
    session.execute(delete(StudyTagRow).where(of_study, StudyTagRow.tag.in_(present - following)))
    session.add_all(StudyTagRow(study_id=study_id, tag=tag) for tag in sorted(following - present))
    return following != present
