"""Shared fixtures. Real data sets are used where BLN_SEARCH_DATA or ../shared/data has them; tests pass without."""

from __future__ import annotations

import gc
import logging
import os
import re
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from shutil import rmtree

import pytest
import torch
import typer.main
import typer.testing
from hypothesis import settings

from tests.support import scheduling, templates
from tests.support.open_connections import record_open_connections

ROOT = Path(__file__).parents[1]
settings.register_profile("fast", max_examples=25, deadline=None)
settings.load_profile("fast")

torch.set_num_threads(1)  # also while tests are collected, and for fixtures of modules, which precede those of tests

_numbers = count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The units of work of `--dist loadgroup` are modules where there is no group."""
    return scheduling.ModuleScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items):
    """What takes longest comes first, so that no test process ends with it alone."""
    items.sort(key=scheduling.rank)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Collect no garbage while modules are loaded and tests are made, which nearly all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    """Leave modules and tests out of every later garbage collection; see to it that groups are seen."""
    gc.collect()
    gc.freeze()
    check_groups(session)


def check_groups(session):
    """Refuse versions of pytest and pytest-xdist that pass groups by in silence (pytest-xdist's issue 1386).

    Ray clusters, browsers and kills of processes must not run beside one another.
    """
    if not hasattr(session.config, "workerinput"):
        return
    parted = [
        item.nodeid for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid
    ]
    if parted:
        raise pytest.UsageError(f"{parted[0]} is in a group that pytest-xdist does not see: take constraints.txt")


@pytest.fixture(scope="session", autouse=True)
def closed_connections():
    """No test leaves a SQLite connection open; at the end of the session the tests that do are named."""
    with record_open_connections() as left_open:
        yield
    assert sorted(set(left_open)) == [], "these tests left connections to SQLite open"


@pytest.fixture(scope="session", autouse=True)
def commands_built_once():
    """Typer builds the whole tree of commands for each call, which takes longer than most calls in this process."""
    build_once = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", build_once)
        patch.setattr(typer.testing, "_get_command", build_once)
        yield


@pytest.fixture(autouse=True)
def one_thread():
    """Every test computes with one thread, so that parallel test processes do not fight over cores."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def logging_as_before():
    """Commands that configure the root logger in the process of the tests leave no handler and no level behind.

    A handler with the standard error of an earlier call writes a traceback to that of a later one.
    """
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


@contextmanager
def unique_path(request, tmp_path_factory):
    """The path of a folder that no other test has; afterwards the folder is deleted, unless the test failed."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}-{next(_numbers)}"
    failures = request.session.testsfailed
    yield path
    if request.session.testsfailed == failures:
        rmtree(path, ignore_errors=True)


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """A new folder.

    pytest's own fixture lists the folders of all earlier tests to number the next one, and deletes those of three
    runs before at the end of a run.
    """
    with unique_path(request, tmp_path_factory) as path:
        path.mkdir(mode=0o700)
        yield path


@pytest.fixture
def home_parent(request, tmp_path_factory):
    """Where the home is: the folder of the test, or a path without a folder if the test does not use one."""
    if "tmp_path" in request.fixturenames:
        yield request.getfixturevalue("tmp_path")
    else:
        with unique_path(request, tmp_path_factory) as path:
            yield path


@pytest.fixture(autouse=True)
def home(home_parent, monkeypatch):
    """A home of its own for every test; no test sees the user's database or cache."""
    for name in [name for name in os.environ if name.startswith("BLN_SEARCH_")]:
        if name != "BLN_SEARCH_DATA":
            monkeypatch.delenv(name)
    monkeypatch.setenv("BLN_SEARCH_HOME", str(home_parent / "home"))
    monkeypatch.setenv("BLN_SEARCH_CACHE", str(home_parent / "cache"))
    return home_parent / "home"


@pytest.fixture(autouse=True)
def migrated_copies(monkeypatch):
    """New SQLite ledgers are copies of a migrated one; processes that a test starts migrate."""
    templates.use_copies(monkeypatch)


def find_real_data() -> Path | None:
    """The folder with the real data sets, or None."""
    candidates = [Path(os.environ["BLN_SEARCH_DATA"])] if "BLN_SEARCH_DATA" in os.environ else []
    candidates.append(ROOT.parent / "shared" / "data")
    return next((folder for folder in candidates if (folder / "mnist").is_dir()), None)


@pytest.fixture
def real_data() -> Path:
    """The folder with the real data sets; where there is none, the test passes over itself."""
    folder = find_real_data()
    if folder is None:
        pytest.skip("the real data sets are not here")
    return folder
