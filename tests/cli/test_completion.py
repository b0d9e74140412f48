"""The shell completes names of studies; without a database nothing is created, and nothing is an error."""

from __future__ import annotations

from contextlib import closing

import pytest

from bln_search.core.sqlite import make_sqlite_url
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.support.service_world import study


@pytest.fixture
def complete(invoke):
    """The completions of the last word of a command line."""

    def _complete(*words):
        line = {"COMP_WORDS": " ".join(["bln-search", *words]), "COMP_CWORD": str(len(words))}
        done = invoke(env={"_BLN_SEARCH_COMPLETE": "complete_bash", **line})
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout.split()

    return _complete


@pytest.mark.parametrize("verb", ["show", "leaderboard", "logs", "tag", "delete", "report", "compare"])
def test_names_of_studies_complete_a_beginning(verb, world, complete):
    for name in ("second", "first", "fourth", "first_again"):
        world.complete(name)
    assert complete(verb, "fi") == ["first", "first_again"]
    assert complete(verb, "f") == ["first", "first_again", "fourth"]
    assert complete(verb, "x") == []


def test_other_words_complete_as_before(complete):
    assert complete("leader") == ["leaderboard"]
    assert complete("token", "re") == ["revoke"]
    assert complete("leaderboard", "s", "--det") == ["--details"]


def test_the_database_is_that_of_the_option(complete, tmp_path):
    url = make_sqlite_url(tmp_path / "a b%20c.sqlite3")
    with closing(open_and_upgrade_ledger(url)) as ledger:
        ledger.studies.store_study_once(study("first"))
    assert complete("show", "--database", url, "f") == ["first"]
    assert complete("show", "f") == []


def test_a_missing_database_stays_missing(complete, home):
    assert complete("show", "f") == []
    assert not home.exists()


def test_what_cannot_be_read_completes_nothing(complete, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("no database " * 100)
    (tmp_path / "empty").touch()
    for url in (f"sqlite:///{tmp_path / 'text'}", f"sqlite:///{tmp_path / 'empty'}", "nothing://x", "no URL"):
        assert complete("show", "--database", url, "f") == []
    assert (tmp_path / "empty").stat().st_size == 0
    monkeypatch.setenv("BLN_SEARCH_THREADS", "none")
    assert complete("show", "f") == []


def test_studies_of_a_service_are_not_asked_for(world, complete):
    world.complete("first")
    assert complete("show", "--server", "http://127.0.0.1:9", "f") == []
