"""The page of a study: one file without external resources, with escaped texts."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from bln_search.core.records import StatisticDrift
from bln_search.core.states import TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.selection.recommendation import recommend_row
from bln_search.reports.charts.chart import Chart, plotly_layout
from bln_search.reports.charts.curves import TrialLearningCurve
from bln_search.reports.manifest import build_study_manifest
from bln_search.reports.page import SECTIONS, Section, StudyReportContext
from bln_search.reports.page.blocks import MAX_TABLE_ROWS, ChartFigure, Paragraph
from bln_search.reports.page.html import render_study_report_html
from bln_search.reports.page.streams import streams_section
from bln_search.specs import parse_study
from bln_search.specs.study_yaml import render_study_yaml
from tests.ranking.comparisons import compared
from tests.reports.pages import ParsedPage, make_report_context, random_evaluations
from tests.reports.studies import study, trial
from tests.support.study_streams import study_streams

HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(2)>"'&{{7*7}}<!--"""


def rich():
    """With something for every section."""
    names = ("training_loss", "validation_loss", "training_accuracy", "validation_accuracy")
    epochs = [{"epoch": n, **dict.fromkeys(names, 1 / n)} for n in (1, 2)]
    drifts = {"bln": {0: [StatisticDrift("0", "E_B", "frozen", 0.1, 0.0)]}}
    curves = [TrialLearningCurve("bln", "", seed, epochs) for seed in (0, 1)]
    return make_report_context(curves=curves, drifts=drifts)


@pytest.fixture(scope="module")
def page():
    return ParsedPage(render_study_report_html(rich()))


def test_every_section_occurs_once(page):
    for part in ("leaderboard", "specification", "charts", "drift", "trials", "manifest", "reproduce"):
        assert page.ids.count(part) == 1
    assert max(Counter(page.ids).values()) == 1
    assert page.tags["h1"] == 1
    assert page.tags["table"] == page.tags["caption"]
    assert len(page.figures()) == 5
    assert {address for address in page.addresses if address.startswith("#")} >= {"#leaderboard", "#reproduce"}


def test_page_has_no_external_resources(page):
    assert all(address.startswith("#") for address in page.addresses)
    assert page.addresses
    style = " ".join(page.styles)
    assert "url(" not in style
    assert "@import" not in style
    assert page.tags["link"] == page.tags["iframe"] == page.tags["img"] == 0


@pytest.mark.parametrize(
    "title", ["", "epoch", "mean loss under T minus that under F (nats)", "first<br>" + "word " * 20]
)
def test_axis_titles_have_short_lines_and_keep_their_words_and_breaks(title):
    chart = Chart("title", "caption", {"data": [], "layout": plotly_layout(title, title, height=9)}, [])
    layout = ChartFigure(chart).figure["layout"]
    for name in ("xaxis", "yaxis"):
        text = layout[name]["title"]["text"]
        assert max(map(len, text.split("<br>"))) <= 32
        assert text.replace("<br>", " ") == title.replace("<br>", " ").strip()
        assert text.startswith(title.partition("<br>")[0][:9])
    assert layout["height"] == 9
    assert chart.figure["layout"]["xaxis"]["title"]["text"] == title


def test_the_table_has_intervals_ranks_and_ties(page):
    rows = rich().leaderboard.rows
    assert re.search(r"0\.\d+ ± 0?\.?\d+", page.text)
    assert f"{len(rows)} rows, ranked by mean validation loss" in page.text


@pytest.mark.parametrize(("worse", "classes"), [((), ["first", "first"]), (("FFFF",), ["first", ""])])
def test_rows_that_are_not_worse_than_the_best_one_are_marked(worse, classes):
    analysis = Analysis(comparison=compared("TTTT", "FFFF", worse=worse))
    html = render_study_report_html(make_report_context(analysis=analysis))
    table = html.partition("Compared rows:")[2].partition("</table>")[0]
    assert re.findall(r"<tr(?: class=\"(\w+)\")?>", table)[1:] == classes
    assert ">p (corrected)<" in table
    assert ">P(best)<" in table


@pytest.mark.parametrize("is_recommended", [True, False])
def test_the_recommended_row_is_marked_in_the_leaderboard(is_recommended):
    recommendation = recommend_row(compared("TTTT", "FFFF"), {}) if is_recommended else None
    context = make_report_context(analysis=Analysis(recommendation=recommendation))
    html = render_study_report_html(context)
    leaderboard = html.partition('id="leaderboard"')[2].partition("</section>")[0]
    expected = [str(row.rank) for row in context.leaderboard.rows if recommendation and row.key == recommendation.key]
    assert re.findall(r">(\d+)\*<", leaderboard) == expected
    assert len(expected) == is_recommended
    assert ("* is the recommended row" in leaderboard) == is_recommended


def test_hostile_texts_are_escaped():
    trials = [trial(1, state=TrialState.FAILED, reason=HOSTILE), trial(2)]
    points = tuple(json.dumps({"training.note": f"{HOSTILE}{n}"}) for n in range(2))
    context = make_report_context(
        trials, study(title=HOSTILE), notes=HOSTILE, evaluations=list(random_evaluations(points=points))
    )
    text = render_study_report_html(context)
    plain_page = ParsedPage(
        render_study_report_html(make_report_context(trials, evaluations=list(random_evaluations(points=points))))
    )
    parsed_page = ParsedPage(text)
    assert parsed_page.text.count(HOSTILE) >= 4  # title, notes, reason, points
    assert parsed_page.tags["img"] == 0
    assert parsed_page.tags["script"] == plain_page.tags["script"]
    assert HOSTILE in json.dumps(parsed_page.figures(), ensure_ascii=False).replace('\\"', '"')
    assert "{{7*7}}" in parsed_page.text


def test_page_ranked_on_test_has_a_warning(page):
    on_test = study(extra_text="ranking: {split: test}")
    assert "optimistic" in ParsedPage(render_study_report_html(make_report_context(record=on_test))).text
    assert "optimistic" not in page.text


def test_a_study_without_results_has_a_page():
    parsed_page = ParsedPage(render_study_report_html(make_report_context([], evaluations=[])))
    assert "There are no results yet." in parsed_page.text
    assert parsed_page.figures() == []
    assert sum(len(text) for _, text in parsed_page.scripts) < 10_000, "no charts, no Plotly"


SPACE = """space: {training.learning_rate: {kind: float, low: 1e-3, high: 1, log: true}}
search: {sampler: random, trials: 2}
"""


@pytest.mark.parametrize(
    "extra_text",
    ["", SPACE, "evaluation: {batch_sizes: [1, 25], correction: total}", "evaluation: {blends: [0.1, N16]}"],
)
def test_study_file_on_the_page_is_parsed_to_the_same_study(extra_text):
    spec = study(HOSTILE, extra_text).spec
    assert parse_study(render_study_yaml(spec)).digest == spec.digest


@pytest.mark.slow
def test_tables_of_a_large_study_are_truncated_with_a_note():
    trials = [trial(n, n) for n in range(12_600)]
    points = tuple(json.dumps({"training.learning_rate": n}) for n in range(200))
    text = render_study_report_html(make_report_context(trials, evaluations=list(random_evaluations(1, points))))
    parsed_page = ParsedPage(text)
    assert f"The first {MAX_TABLE_ROWS:,} of {16 * 200:,} rows are shown." in parsed_page.text
    assert f"The first {MAX_TABLE_ROWS:,} of 12,600 rows are shown." in parsed_page.text
    assert f"The first {MAX_TABLE_ROWS:,} of 12,600 trials are shown." in parsed_page.text
    assert len(text) < 8_000_000


def test_a_study_with_streams_has_its_arms_of_adaptation_with_charts():
    record = study(extra_text="stream: {}\n")
    section = streams_section(make_report_context(record=record, analysis=Analysis(streams=study_streams())))
    assert [type(block).__name__ for block in section.blocks] == ["Paragraph", "Table", "ChartFigure", "ChartFigure"]
    assert "Recommended: none F" in section.blocks[0].text
    assert streams_section(make_report_context(analysis=Analysis())) is None


def test_custom_section_is_a_function():
    chart = Chart(
        "Mine", "It is mine.", {"data": [], "layout": {"title": {"text": "</script>"}}}, [{"a": 1, "b": None}]
    )

    def own_section(context: StudyReportContext) -> Section:
        return Section("mine", "My <section>", [Paragraph(f"{len(context.trials)} trials & more"), ChartFigure(chart)])

    parsed_page = ParsedPage(render_study_report_html(rich(), (*SECTIONS, own_section, lambda _: None)))
    assert "mine" in parsed_page.ids
    assert "My <section>" in parsed_page.text
    assert "2 trials & more" in parsed_page.text
    assert parsed_page.figures()[-1]["layout"]["title"]["text"] == "</script>"


def test_page_and_manifest_say_that_the_code_changed():
    changed = replace(study(), code_changes=("own_parts.py changed.",))
    context = replace(rich(), study=changed)
    assert "own_parts.py changed." in render_study_report_html(context)
    assert "own_parts.py changed." not in render_study_report_html(rich())
    manifest = build_study_manifest(changed, [], machine={}, schema=None, now=changed.created_at)
    assert manifest["study"]["code_changes"] == ["own_parts.py changed."]
