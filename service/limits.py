"""What one caller may ask of the service."""

from __future__ import annotations

import time
from threading import Lock

from bln_search.settings import Settings
from bln_search.specs.plan import Plan, plan_study
from bln_search.specs.problems import Problem, name_problems, size_problems, space_problems
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import written_trials
from service.problems import RefusedError, invalid_body

_MINUTE = 60.0
_TRIALS = "arms, points and seeds make trials:"
_MOST_CALLERS = 10_000


class Rates:
    """Requests of each caller in the present minute."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        self._counts: dict[str, int] = {}
        self._since = time.monotonic()

    def count(self, caller: str, weight: int = 1) -> None:
        """One more request. Raises RefusedError (429) where that is too many."""
        with self._lock:
            now = time.monotonic()
            if now - self._since >= _MINUTE or len(self._counts) > _MOST_CALLERS:
                self._counts.clear()
                self._since = now
            counted = self._counts.get(caller, 0) + weight
            self._counts[caller] = counted
            wait = max(1, round(self._since + _MINUTE - now))
        if counted > self.most:
            detail = f"more than {self.most} requests in a minute; wait {wait} seconds"
            raise RefusedError(429, "too-many-requests", detail, headers={"Retry-After": str(wait)})


def checked_plan(study: StudySpec, settings: Settings) -> Plan:
    """The plan of a study that may be sent in. Raises RefusedError (422) with every reason why it may not."""
    problems = name_problems(study)
    if not problems and written_trials(study) <= settings.most_trials:
        problems = space_problems(study) or size_problems(study)
    elif not problems:
        problems = [_too_many("seeds", _TRIALS, written_trials(study), settings.most_trials)]
    if problems:
        raise invalid_body(problems)
    plan = plan_study(study)
    problems = [
        _too_many(place, what, found, most)
        for place, what, found, most in (
            ("seeds", _TRIALS, plan.trials, settings.most_trials),
            ("training", "epochs of all trials:", plan.epochs, settings.most_epochs),
            ("evaluation", "evaluations of each split:", plan.evaluations, settings.most_evaluations),
            ("model", "units of a layer:", plan.largest_width, settings.largest_width),
        )
        if found > most
    ]
    if problems:
        raise invalid_body(problems)
    return plan


def _too_many(place: str, what: str, found: int, most: int) -> Problem:
    return Problem((place,), f"{what} {found:,}, this service takes {most:,} at most")


def check_room(settings: Settings) -> None:
    """Raise RefusedError (507) where the disk is nearly full."""
    lacking = settings.lacking_room
    if lacking is not None:
        raise RefusedError(507, "storage-full", f"{lacking}: no study is taken before there is room")
