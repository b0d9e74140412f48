"""The page of charts: groups, those without data, and the script that draws them."""

from __future__ import annotations

import csv
import gzip
import io
import re

import pytest

from bln_search.worker.analysis import compute_and_store_analysis
from service.pages.charts import CHARTS
from service.pages.rendering import assets as plotly_script
from tests.support.sampled_study import complete_sampled_study, complete_schedule_search
from tests.support.service_world import RUNNER, start_study, study
from tests.support.then_trained_study import RATE, RATES, complete_then_trained_study, objective


def shown(text):
    return re.findall(r'data-name="([^"]+)"', text)


def assert_shown_charts_have_figures(root, number):
    """A chart is shown if and only if it has a figure; return the names of those shown."""
    text = root.get(f"/studies/{number}/charts").text
    names = shown(text)
    figures = {name: root.get(f"/studies/{number}/charts/{name}.json").json()["figure"] for name in CHARTS}
    assert {name for name, figure in figures.items() if figure} == set(names)
    types = {trace["type"] for figure in figures.values() if figure for trace in figure["data"]}
    assert types <= {"scatter", "bar"}  # of which the small script consists
    missing = text.partition('<details class="missing"')[2]
    assert [entry.title in missing for entry in CHARTS.values()] == [name not in names for name in CHARTS]
    return names


def test_charts_without_data_are_listed_with_what_they_need(world, root):
    number = world.complete(seeds=(0, 1, 2))
    compute_and_store_analysis(world.ledger, number, None)
    names = assert_shown_charts_have_figures(root, number)
    assert {"configurations", "differences", "curves"} <= set(names)
    assert "<code>probes: {epochs: 3}</code>" in root.get(f"/studies/{number}/charts").text


def test_search_has_its_own_group(world, root):
    number = complete_sampled_study(world, "searched")
    assert "points" in assert_shown_charts_have_figures(root, number)
    assert '<a href="#search">Search</a>' in root.get(f"/studies/{number}/charts").text


def test_search_of_a_sampler_shows_its_course_and_its_schedules(world, root):
    number = complete_schedule_search(world, "schedules")
    assert {"history", "schedules"} <= set(assert_shown_charts_have_figures(root, number))
    assert not {"history", "schedules"} & set(
        assert_shown_charts_have_figures(root, complete_sampled_study(world, "grid"))
    )


def test_search_before_full_trainings_is_drawn_from_the_objective_of_its_trials(world, root):
    number = complete_then_trained_study(world.ledger, "then_trained", "ada")
    assert {"importance", "points"} <= set(assert_shown_charts_have_figures(root, number))
    rows = csv.DictReader(io.StringIO(root.get(f"/studies/{number}/charts/points.csv").text))
    values = {float(row[RATE]): float(row["running training loss (search)"]) for row in rows}
    assert values == pytest.approx({rate: objective(rate) for rate in RATES})
    figure = root.get(f"/studies/{number}/charts/importance.json").json()["figure"]
    assert figure["data"][0]["y"] == [RATE]


def test_waiting_study_has_no_chart(world, root):
    number = world.ledger.queue.submit_study(study("waiting"), "ada").study_id
    assert assert_shown_charts_have_figures(root, number) == []


def test_study_without_a_trained_epoch_has_no_chart(world, root):
    number, trials = start_study(world.ledger, "diverged", "ada")
    for trial in trials:
        world.ledger.attempts.record_divergence(world.ledger.attempts.claim_trial(trial.id, RUNNER), "not finite")
    world.ledger.studies.finish_run(number, runner=RUNNER)
    assert assert_shown_charts_have_figures(root, number) == []


def test_charts_that_the_evaluation_setting_governs_are_marked(world, root):
    number = world.complete(batch_sizes="[5, 8]")
    text = root.get(f"/studies/{number}/charts?setting=1").text
    figures = re.findall(r'data-name="([^"]+)".*?</figcaption>', text, re.DOTALL)
    marked = {
        name
        for name, part in zip(figures, re.split(r'<figure class="chart"', text)[1:], strict=True)
        if "◆" in part.partition("</figcaption>")[0]
    }
    assert marked == {name for name in figures if CHARTS[name].by_setting}
    assert "◆ batch 8" in text
    assert "◆" not in root.get(f"/studies/{world.complete('single')}/charts").text


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "br"), ("gzip;q=1.0", "gzip"), ("identity", None)])
def test_script_has_the_smallest_accepted_encoding(tmp_path, monkeypatch, accepted, encoding):
    (tmp_path / "plotly-basic-1.2.3.min.js.gz").write_bytes(gzip.compress(b"/** script"))
    (tmp_path / "plotly-basic-1.2.3.min.js.br").write_bytes(b"compressed")
    monkeypatch.setattr(plotly_script, "_FOLDER", tmp_path)
    plotly_script._find_compressed_script.cache_clear()
    response = plotly_script.make_plotly_script_response(accepted)
    plotly_script._find_compressed_script.cache_clear()
    assert response.headers.get("content-encoding") == encoding
    assert plotly_script.get_plotly_script_version() == "basic-1.2.3"
    if encoding is None:
        assert response.body == b"/** script"


def test_complete_script_is_delivered_where_the_small_one_is_missing(tmp_path, monkeypatch):
    (tmp_path / "plotly.min.js").write_bytes(b"/** complete")
    monkeypatch.setattr(plotly_script, "_FOLDER", tmp_path)
    monkeypatch.setattr(plotly_script, "_complete_script_file", lambda: tmp_path / "plotly.min.js")
    plotly_script._find_compressed_script.cache_clear()
    plain, packed = (plotly_script.make_plotly_script_response(accepted) for accepted in ("", "br, gzip"))
    plotly_script._find_compressed_script.cache_clear()
    assert plain.body == gzip.decompress(packed.body) == b"/** complete"
    assert packed.headers["content-encoding"] == "gzip"
