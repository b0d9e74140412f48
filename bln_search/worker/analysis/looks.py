"""The looks at the data of a study, and the level that the present one may spend."""

from __future__ import annotations

from bln_search.ranking.looks import level_of_look
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger


def find_looks_and_level(ledger: Ledger, study: StudyRecord, seeds: int) -> tuple[tuple[int, ...], float]:
    """The numbers of seeds of the looks so far, `seeds` the last one, and the significance level of that one.

    An analysis of as many seeds as an earlier one is the same look. Planned looks have their planned levels unless
    another study has looked at the same trials before.
    """
    looks_by_study = ledger.analyses.list_looks_by_study(study.id)
    plan = {look for look in study.spec.planned_looks if look < seeds}
    earlier = plan | {look for looks in looks_by_study.values() for look in looks if look < seeds}
    others = [look for other, looks in looks_by_study.items() if other != study.id for look in looks if look < seeds]
    is_planned = bool(study.spec.planned_looks) and not others and earlier == plan
    return (*sorted(earlier), seeds), level_of_look(len(earlier), planned=is_planned)
