"""`bln-search settings` prints every setting, without secrets."""

from __future__ import annotations

from bln_search.settings import Settings


def test_every_setting_is_a_record(in_every_format, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_THREADS", "3")
    printed = in_every_format("settings")
    by_name = {record["variable"]: record for record in printed.json}
    assert by_name.keys() == {f"BLN_SEARCH_{name.upper()}" for name in Settings.model_fields}
    threads = by_name["BLN_SEARCH_THREADS"]
    assert (threads["value"], threads["is_default"]) == ("3", False)
    assert by_name["BLN_SEARCH_DEVICE"]["is_default"]
    assert [row["variable"] for row in printed.csv] == list(by_name)


def test_a_secret_is_not_printed(records, invoke, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_TOKEN", "bln_secret")
    monkeypatch.setenv("BLN_SEARCH_DATABASE", "postgresql+psycopg://me:hidden@host/db")
    by_name = {record["variable"]: record for record in records("settings")}
    assert by_name["BLN_SEARCH_TOKEN"]["value"] == "(secret)"
    for output in (str(by_name), invoke("settings").stdout):
        assert "bln_secret" not in output
        assert "hidden" not in output


def test_default_paths_are_printed(records, home):
    by_name = {record["variable"]: record["value"] for record in records("settings")}
    for name in ("DATABASE", "CHECKPOINTS", "DATA"):
        assert str(home) in by_name[f"BLN_SEARCH_{name}"]


def test_a_list_is_printed_as_its_variable_takes_it(records, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_HOSTS", '["bln.example.org", "localhost"]')
    (printed,) = (record["value"] for record in records("settings") if record["variable"] == "BLN_SEARCH_HOSTS")
    monkeypatch.setenv("BLN_SEARCH_HOSTS", printed)
    assert Settings().hosts == ("bln.example.org", "localhost")
