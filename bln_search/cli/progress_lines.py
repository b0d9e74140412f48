"""Lines of progress on standard error."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.cli.output import errors


def make_progress_line_printer(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line of progress; with `quiet` it prints nothing."""
    return _print_nothing if quiet else _print_to_stderr


def _print_to_stderr(line: str) -> None:
    errors.print(line, markup=False, highlight=False)


def _print_nothing(_line: str) -> None:
    pass
