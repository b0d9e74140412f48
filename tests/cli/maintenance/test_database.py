"""`bln-search db status` prints the location of the database and its schema revision."""

from __future__ import annotations

from bln_search.storage.migration import newest_known_schema_revision


def test_status_is_a_record(invoke, in_every_format, home):
    before = in_every_format("db", "status").json
    assert (before["schema_revision"], before["newest_revision"]) == (None, newest_known_schema_revision())
    assert not home.exists()
    assert invoke("db", "upgrade").exit_code == 0
    printed = in_every_format("db", "status")
    assert printed.json["schema_revision"] == newest_known_schema_revision()
    assert str(home) in printed.json["database"]
    assert printed.jsonl == [printed.json]
    assert printed.csv == [printed.json]


def test_upgrade_says_whether_it_did_anything(invoke, home):
    assert [words in invoke("db", "upgrade").stdout for words in ("tables created", "nothing to upgrade")] == [
        True,
        True,
    ]
