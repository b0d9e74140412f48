"""Tables of studies and of a network of the user are those that were recorded."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf

import pytest

from tests.promises.own_network import compute_tables
from tests.promises.recording import ROUNDED, find_differences
from tests.promises.tables import STUDIES, read_table, run_study
from tests.support.in_process_executor import InProcessExecutor

pytestmark = [pytest.mark.promise, pytest.mark.xdist_group("promises")]  # the processes that run trials start once

FAST = ("populations", "regression")
"""Studies of `make test`, whose trials run in the process of the test."""

OTHER_PROCESSORS = {"tpe": inf}
"""Relative tolerances: a sampled point depends on losses, so that a rounding may lead to other points and losses."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in STUDIES]
)
def test_a_study_has_the_recorded_table(name, home, monkeypatch):
    if name in FAST:
        monkeypatch.setattr("bln_search.cli.studies.run.start_process_server", lambda: None)
        monkeypatch.setattr(
            "bln_search.cli.studies.run.make_executor",
            lambda _, environment, *__: nullcontext(InProcessExecutor(environment)),
        )
    run_study(name, home)
    tolerance = OTHER_PROCESSORS.get(name, ROUNDED)
    assert find_differences(name, read_table(name, home), other_processor=tolerance) == []


def test_a_network_of_the_user_has_the_recorded_tables():
    assert find_differences("own_network", compute_tables()) == []
