"""The result of one check of an installation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from bln_search.core.errors import BlnSearchError


class FindingState(StrEnum):
    """Whether a part of an installation works.

    Members:
        OK: It works.
        FAULT: It does not work.
        SKIPPED: It was not checked, because it is not used or something that it needs is missing.
    """

    OK = "ok"
    FAULT = "fault"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: What was checked.
        state: Whether it works.
        detail: What was found.
        remedy: What to do about a fault; empty otherwise.
    """

    name: str
    state: FindingState
    detail: str
    remedy: str = ""


def ok(name: str, detail: str) -> Finding:
    """A finding of something that works."""
    return Finding(name, FindingState.OK, detail)


def fault(name: str, detail: str, remedy: str) -> Finding:
    """A finding of something that does not work. remedy: what to do about it."""
    return Finding(name, FindingState.FAULT, detail, remedy)


def skipped(name: str, detail: str) -> Finding:
    """A finding of something that was not checked. detail: why."""
    return Finding(name, FindingState.SKIPPED, detail)


def iter_check_findings(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; an error that it raises is a fault of its own."""
    try:
        yield from check()
    except BlnSearchError as error:
        yield fault(name, str(error), "the message names what to change")
    except PermissionError as error:
        detail = f"{error.filename or name}: {error.strerror}"
        yield fault(name, detail, "give this user read and write access, or set BLN_SEARCH_HOME")
    except Exception as error:  # noqa: BLE001 - a broken installation must not hide the other findings
        yield fault(name, f"{type(error).__name__}: {error}".partition("\n")[0], "report this with the other lines")
