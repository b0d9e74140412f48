"""A study written down: every format of its table, its manifest, its page in a real browser."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess

import pytest
from pyarrow import parquet

from bln_search.cli.main import app
from bln_search.core.errors import OutputFileError, UnknownStudyError
from bln_search.data import load_data_set
from bln_search.storage.migration import newest_known_schema_revision
from tests.conftest import ROOT
from tests.end_to_end.browser import chromium
from tests.end_to_end.commands import call, command
from tests.end_to_end.service import Service, until

STUDY = """
name: published
title: '</script><b onmouseover="document.title = 1">bold</b>'
data: {name: digits, fraction: 0.1, validation: 300}
model: {name: mlp, widths: [8]}
arms: [{method: bln}, {method: ln}]
training: {epochs: 1}
space: {training.batch_size: {kind: choice, values: [1, 25]}}
evaluation: {population: [frozen, epoch]}
seeds: [0, 1]
"""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A home with one finished study; what was trained in mini-batches of one is undefined in part."""
    home = tmp_path_factory.mktemp("published") / "home"
    home.mkdir()
    (home / "published.yaml").write_text(STUDY)
    call("run", home / "published.yaml", home=home, check=0)
    return home


@pytest.fixture
def write(finished, tmp_path, monkeypatch):
    """A verb carried out here, with --to; what it wrote."""
    monkeypatch.setenv("BLN_SEARCH_HOME", str(finished))

    def written(verb, *more, study="published", to=tmp_path / "written"):
        app([verb, study, "--output", str(to), *map(str, more)], standalone_mode=False)
        return to.read_bytes()

    return written


def printed(home, *more):
    """What the command writes to standard output, as bytes."""
    environment = {**os.environ, "BLN_SEARCH_HOME": str(home)}
    return subprocess.run(command(*more), env=environment, capture_output=True, check=True).stdout


@pytest.mark.parametrize("form", ["csv", "latex", "parquet"])
def test_a_file_holds_what_is_printed(finished, write, form, tmp_path):
    file = write("leaderboard", "--format", form)
    assert file == printed(finished, "leaderboard", "published", "--format", form)
    assert os.listdir(tmp_path) == ["written"]


def test_a_table_goes_into_a_file_and_is_cut_where_asked(write):
    text = write("leaderboard", "--limit", 3).decode()
    assert "loss ▲" in text
    assert "no rank for" in text
    lines = write("leaderboard", "--format", "markdown", "--limit", 3).decode().splitlines()
    assert sum(line.startswith("| ") for line in lines) == 2 + 3
    assert write("leaderboard", "--format", "latex", "--limit", 3).decode().count(r" \\") == 1 + 3
    assert len(write("leaderboard", "--format", "csv", "--limit", 3).decode().splitlines()) == 1 + 3
    cut = json.loads(write("leaderboard", "--format", "json", "--limit", 3))
    assert (cut["study"], len(cut["rows"])) == ("published", 3)
    assert parquet.read_table(io.BytesIO(write("leaderboard", "--format", "parquet", "--limit", 3))).num_rows == 3


def test_parquet_has_the_figures_of_the_csv(write):
    table = parquet.read_table(io.BytesIO(write("leaderboard", "--format", "parquet")))
    lines = list(csv.DictReader(io.StringIO(write("leaderboard", "--format", "csv").decode())))
    rows = [{name: "" if value is None else str(value) for name, value in row.items()} for row in table.to_pylist()]
    assert [{**row, "ranked_on": "validation"} for row in rows] == lines
    assert any(row["state"] == "undefined" for row in rows)
    assert table.schema.metadata[b"study"] == b"published"


def test_parquet_is_not_poured_into_a_terminal(finished):
    ours, theirs = os.openpty()
    try:
        process = subprocess.run(
            command("leaderboard", "published", "--format", "parquet"), stdout=theirs, stderr=subprocess.PIPE, text=True
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 2
    assert "Parquet is binary" in process.stderr


def test_the_errors_of_a_target_have_their_exit_code(finished, tmp_path):
    process = call("report", "published", "--output", tmp_path / "none" / "file", home=finished, check=1)
    assert process.stderr.splitlines()[0].startswith("error: ")
    assert f"create the folder {tmp_path / 'none'}" in process.stderr


@pytest.mark.parametrize("verb", ["leaderboard", "manifest", "report"])
def test_failed_write_is_one_error_and_keeps_the_old_file(write, verb, tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    with pytest.raises(OutputFileError, match="create the folder"):
        write(verb, to=folder / "none" / "file")
    with pytest.raises(OutputFileError, match="is not a regular file"):
        write(verb, to=folder)
    (folder / "file").write_text("before")
    with pytest.raises(UnknownStudyError):
        write(verb, study="nothing", to=folder / "file")
    assert (folder / "file").read_text() == "before"
    assert os.listdir(folder) == ["file"]


def test_what_is_written_may_be_read_as_other_files_may(write, tmp_path):
    before = os.umask(0o027)
    try:
        write("manifest")
    finally:
        os.umask(before)
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o640


def test_the_manifest_names_files_and_data_by_what_is_in_them(finished, write, tmp_path):
    document = json.loads(write("manifest"))
    assert len(document["trials"]) == 8
    for trial in document["trials"]:
        content = (finished / "checkpoints" / trial["checkpoint"]["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == trial["checkpoint"]["sha256"]
        assert trial["checkpoint"]["provenance"]["seed"] == trial["seed"]
    assert document["data"]["sha256"] == load_data_set("digits", tmp_path).sha256
    assert document["schema"] == newest_known_schema_revision()
    if (ROOT / ".git").exists():
        assert document["written_by"]["git_revision"]
    second = json.loads(printed(finished, "manifest", "published"))
    same = {"written_at": None, "written_by": None}
    assert second | same == document | same


def test_a_service_gives_the_same_table_and_manifest(finished, write):
    here = [write("leaderboard", "--format", form) for form in ("latex", "parquet")], json.loads(write("manifest"))
    service = Service(finished, "--no-worker").start()
    try:
        where = ("--server", service.address)
        there = (
            [write("leaderboard", "--format", form, *where) for form in ("latex", "parquet")],
            json.loads(write("manifest", *where)),
        )
    finally:
        service.stop()
    assert here[0] == there[0]
    assert there[1]["schema"] is None
    same = {"schema": None, "written_at": None, "written_by": None}
    assert here[1] | same == there[1] | same


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "published.html"
    call("report", "published", "--output", file, home=finished, check=0)
    return file


PATIENCE = 120_000  # milliseconds, of a machine that has much else to do
DRAWN = "[...document.querySelectorAll('.plot')].filter((one) => one.querySelector('.main-svg .xy')).length"


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_a_browser_draws_the_page_and_asks_nobody(report, scheme):
    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme)
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(report.as_uri(), timeout=PATIENCE)
        charts = page.locator(".chart").count()
        assert charts >= 5
        until(lambda: page.evaluate(DRAWN) == charts, PATIENCE / 1000)
        assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
        assert "onmouseover" in page.locator("h1").inner_text()
        assert page.locator("h1 b").count() == 0
        page.locator("details:has(pre) summary").first.click()
        assert page.locator("details[open] pre").first.is_visible()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark is (scheme == "dark")
        assert complaints == []
        page.evaluate(
            "() => { const one = document.createElement('script'); one.textContent = 'window.ours = 1';"
            " document.body.append(one); }"
        )
        assert page.evaluate("window.ours") is None, "no script but the page's own"
        assert all("Content Security Policy" in text for text in complaints)
        browser.close()


def test_page_is_accessible_and_readable_without_javascript(report):
    from axe_playwright_python.sync_playwright import Axe

    with chromium() as browser:
        plain = browser.new_context(java_script_enabled=False).new_page()
        plain.goto(report.as_uri(), timeout=PATIENCE)
        assert plain.locator("noscript").is_visible()
        assert plain.locator("#leaderboard tbody tr").count() > 16
        page = browser.new_page()
        page.goto(report.as_uri(), timeout=PATIENCE)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        browser.close()
