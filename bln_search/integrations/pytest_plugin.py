"""pytest plugin: the fixture `assert_not_worse`, its figures in the JUnit report and a section of the summary.

pytest imports this module in every run where bln-search is installed. It loads neither torch nor the functions of
bln-search before a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bln_search.api.not_worse.report import NotWorseReport

_PROPERTY = "not_worse"
"""Name of the JUnit property with the result in one line; the names of the others begin with it."""


@pytest.fixture
def assert_not_worse(request: pytest.FixtureRequest) -> Callable[..., NotWorseReport]:
    """`bln_search.assert_not_worse`, whose result becomes properties of the test in the JUnit report."""
    from bln_search.api.not_worse.assertion import check_undecided, require_not_worse  # noqa: PLC0415 - loads torch
    from bln_search.api.not_worse.comparison import compare_with_baseline  # noqa: PLC0415

    # `record_property` warns with the default family of JUnit reports, and warnings may be errors
    properties: list[tuple[str, object]] = request.node.user_properties

    def assert_and_record(*args: Any, undecided: str = "fail", **options: Any) -> NotWorseReport:
        __tracebackhide__ = True
        check_undecided(undecided)
        report = compare_with_baseline(*args, **options)
        earlier = sum(name == _PROPERTY for name, _ in properties)
        prefix = f"{_PROPERTY}.{earlier + 1}" if earlier else _PROPERTY
        properties.append((_PROPERTY, report.summary))
        properties.extend((f"{prefix}.{name}", value) for name, value in report.to_properties().items())
        require_not_worse(report, undecided)
        return report

    return assert_and_record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each comparison, those of other processes too."""
    lines = dict.fromkeys(_iter_lines(terminalreporter))
    if lines:
        terminalreporter.section("compared with a baseline")
        for line in lines:
            terminalreporter.write_line(line)


def _iter_lines(terminalreporter: pytest.TerminalReporter) -> Iterator[str]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                for name, value in report.user_properties:
                    if name == _PROPERTY:
                        yield f"{report.nodeid}: {value}"
