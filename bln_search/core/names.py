"""Names of studies, accounts and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""Regular expression of the name of a study or an account."""

CONDITION_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""Regular expression of the name of a condition."""


def ambiguous_study_name_message(name: str, newest: Mapping[str, int]) -> str:
    """Return the message about a name that studies of other accounts have.

    Args:
        name: The name.
        newest: Number of the newest study of that name by owner.
    """
    studies = ", ".join(f"{study_id} of {owner}" for owner, study_id in sorted(newest.items()))
    return f"the name {name!r} belongs to studies of other accounts: give the number of one of them: {studies}"


def repeated_study_name_message(name: str, studies: Iterable[Mapping[str, object]]) -> str:
    """Return the message about a name that several studies of one owner have.

    Args:
        name: The name.
        studies: `id`, `state` and `created` of each study.
    """
    listed = ", ".join(f"{study['id']} ({study['state']}, created {study['created']})" for study in studies)
    return f"several studies have the name {name!r}: give the number of one of them: {listed}"


def format_count_with_noun(count: int, singular: str, plural: str) -> str:
    """Return a number with its noun: `1 study`, `2 studies`."""
    return f"{count} {singular if count == 1 else plural}"
