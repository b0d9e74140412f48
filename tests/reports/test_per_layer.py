"""Per-layer configurations in words, tables and a chart."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from bln_search.core.enums import LayerScope, LayerSearch
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import LayerChoice, LayerResult
from bln_search.reports.charts.per_layer import MARK, layer_switches_chart
from bln_search.reports.page import blocks
from bln_search.reports.page.html import study_page
from bln_search.reports.page.per_layer import effects_table, networks_table, per_layer, rows_table, uniform_table
from bln_search.reports.per_layer import counted, layer_lines, left_out_lines, result_label
from tests.ranking.layers import EQUAL, REASON, WORSE, layer_result, network
from tests.reports.test_page import Read, material


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (
            {},
            "Per-layer is better by 0.0120 [0.0040, 0.0200] nats on examples that had no part in choosing, "
            "over 10 networks (p = 0.003).",
        ),
        ({"difference": WORSE}, "Per-layer is worse by 0.0120 [0.0040, 0.0200] nats on examples"),
        (
            {"difference": EQUAL},
            "Per-layer and uniform are not told apart: the difference is -0.0020 [-0.0100, +0.0060] nats on examples",
        ),
        ({"difference": EQUAL.model_copy(update={"networks": 1})}, "over one network (p = 0.6)."),
        (
            {"networks": 1, "difference": None},
            "is not known: the confirmed difference is -0.0120 nats over one network",
        ),
        ({"networks": 0}, "No network is searched yet."),
    ],
)
def test_the_verdict_comes_first(given, verdict):
    assert verdict in layer_lines(layer_result(**given))[0]


def test_luck_test_and_extent_are_told():
    lines = layer_lines(layer_result())
    assert lines[1] == "On the examples that chose it, it looks 0.0100 ± 0 nats better than it is."
    assert "the chosen ones have 0.4900, the best uniform ones 0.5000: -0.0100 ± 0 nats over 10 networks" in lines[2]
    assert "65,536 configurations, all of them evaluated on each network" in lines[3]
    assert len(lines) == 4


@pytest.mark.parametrize("written", [False, True])
def test_a_network_without_a_finite_loss_is_counted_and_has_no_part_in_means(written):
    lost = network(0, loss=math.inf, test_loss=math.inf)
    made = layer_result().model_copy(update={"networks": (lost, network(1)), "difference": None})
    if written:
        made = LayerResult.model_validate_json(made.model_dump_json())
    verdict, luck, test, _ = layer_lines(made)
    assert verdict.endswith("is not known: one network has no finite loss on examples that had no part in choosing.")
    assert luck == "On the examples that chose it, it looks 0.0100 nats better than it is."
    assert test.endswith("-0.0100 nats over one network; one network has no finite loss there.")
    both = network(0, loss=math.inf, uniform_loss=math.inf, test_loss=None)
    (told, on_test, _) = layer_lines(made.model_copy(update={"networks": (both,)}))
    assert "one network has no finite loss on examples" in told
    assert on_test == "On test one network has no finite loss."
    assert "nan" not in str(networks_table(made.model_copy(update={"networks": (both,)})).rows)


def test_a_choice_without_luck_is_not_called_lucky():
    lucky = layer_result().model_copy(update={"networks": tuple(network(seed, apparent=0.5) for seed in (0, 1))})
    assert "it looks no better than it is (-0.0120 ± 0 nats)" in layer_lines(lucky)[1]


def test_a_search_says_how_far_it_went_and_who_is_missing():
    lines = layer_lines(layer_result(56, search=LayerSearch.BEAM, unfinished=(3, 4)))
    assert "A word for each of 56 normalization layers: 2.6 × 10⁶⁷ configurations, 65,536 of them" in lines[3]
    assert "(beam search)" in lines[3]
    assert lines[-1] == "Seeds 3, 4 are still to be searched, and not in these figures."
    assert layer_lines(layer_result(unfinished=(3,)))[-1].startswith("Seed 3 is still")
    without = tuple(network(seed, test_loss=None, test_accuracy=None) for seed in (0, 1))
    assert not any("On test" in line for line in layer_lines(layer_result().model_copy(update={"networks": without})))


def test_scopes_are_told_apart():
    assert "One word for all of 4 norm" in layer_lines(layer_result(scope=LayerScope.GLOBAL))[-1]
    assert "4 choices for 4 norm" in layer_lines(layer_result(scope=LayerScope.GROUPS))[-1]
    assert counted("999999999999999") == "999,999,999,999,999"
    assert counted("1" + "0" * 20) == "1.0 × 10²⁰"


def test_the_label_names_the_point_where_there_is_one():
    assert result_label(layer_result()) == "bln"
    assert result_label(layer_result(point='{"arm.lambda": 0.5}')) == "bln, lambda=0.5"


def test_what_is_left_out_alike_stands_together():
    assert left_out_lines(layer_result()) == []
    everywhere = left_out_lines(layer_result(left_out={"TTTT": REASON, "TTTF": REASON}))
    assert everywhere == [f"Left out in all 4 choices: TTTT, TTTF ({REASON})."]
    some = [
        LayerChoice(name=f"norm{n}", layers=(f"norm{n}",), options=("TTFF",), left_out={"TTTT": REASON} if n else {})
        for n in range(6)
    ]
    assert left_out_lines(layer_result(choices=tuple(some))) == [
        f"Left out in norm1, norm2, norm3 and 2 more: TTTT ({REASON})."
    ]


@pytest.mark.parametrize("layers", [1, 4, 56])
def test_a_column_a_layer_and_the_uniform_one_below(layers):
    table = rows_table(layer_result(layers, rows=12), 10)
    assert [column.label for column in table.columns[3:]] == [f"norm{place}" for place in range(layers)]
    assert {column.kind for column in table.columns[3:]} == {blocks.Kind.WORD}
    assert [row.cells[0] for row in table.rows] == [*(str(place) for place in range(1, 11)), "best uniform"]
    assert {len(row.cells) for row in table.rows} == {len(table.columns)}
    assert table.rows[-1].cells[3:] == ["TTTT"] * layers
    assert table.rows[0].cells[1:3] == ["0.400 ± 0.010", "90.0 ± 1.0"]
    assert len(uniform_table(layer_result(layers)).rows) == 16


def test_a_layer_follows_only_the_part_of_a_uniform_word_that_it_has():
    given = layer_result(2)
    row = given.rows[0].model_copy(update={"configuration": "TT--.FFFF"})
    mixed = given.model_copy(update={"rows": (row,)})
    assert rows_table(mixed, 10).rows[-1].cells[3:] == ["TT--", "TTTT"]


def test_each_network_has_its_figures():
    (row,) = networks_table(layer_result(2, networks=1)).rows
    assert row.cells == [
        *("0", "0.4780", "0.4880", "0.0100", "0.5000", "-0.0120"),
        *("0.4900", "0.5000", "65,536", "TTFF", "TTFF.TTFF"),
    ]
    untested = layer_result().model_copy(update={"networks": (network(0, test_loss=None),)})
    assert networks_table(untested).rows[0].cells[6] == "–"


def test_effects_are_marked_where_their_interval_excludes_zero():
    table = effects_table(layer_result())
    assert [column.label for column in table.columns] == ["Choice", "E_B", "Std_B", "E_F", "Std_F"]
    assert table.rows[0].cells == [
        *("norm0", f"-0.030 ± 0.015 {MARK}", f"-0.020 ± 0.015 {MARK}"),
        *("-0.010 ± 0.015", "+0.000 ± 0.015"),
    ]
    assert "averaged over all configurations" in table.caption
    assert "around the best configuration" in effects_table(layer_result(marginal=False)).caption


@pytest.mark.parametrize("layers", [1, 4, 56])
def test_the_chart_is_centred_on_zero_and_tells_what_it_draws(layers):
    from plotly import graph_objects

    chart = layer_switches_chart(layer_result(layers, marginal=layers < 56))
    graph_objects.Figure(chart.figure)
    json.dumps(chart.figure, allow_nan=False)
    (trace,) = chart.figure["data"]
    assert trace["zmax"] == -trace["zmin"] == 0.03
    assert trace["text"][0] == [MARK, MARK, "", ""]
    assert trace["customdata"][0][0] == "-0.030 ± 0.015"
    assert len(trace["z"]) == layers
    assert chart.figure["layout"]["height"] >= 22 * layers
    assert ("averaged over all" if layers < 56 else "around the best configuration") in chart.about
    assert len(list(csv.DictReader(io.StringIO(chart.csv)))) == 4 * layers


def test_a_layer_without_a_statistic_has_an_empty_cell_and_one_network_no_mark():
    given = layer_result(2)
    kept = tuple(
        one.model_copy(update={"half": None, "loss": 0.0})
        for one in given.effects
        if one.choice == "norm0" or one.statistic in ("E_B", "Std_B")
    )
    chart = layer_switches_chart(given.model_copy(update={"effects": kept}))
    assert chart.figure["data"][0]["z"][1] == [0.0, 0.0, None, None]
    assert chart.figure["data"][0]["zmax"] == 1.0
    assert chart.about.endswith("no telling what is chance.")
    assert effects_table(given.model_copy(update={"effects": kept})).rows[1].cells[3:] == ["–", "–"]
    assert layer_switches_chart(layer_result(networks=0)) is None


def test_the_report_has_a_section_where_something_was_searched():
    assert per_layer(material()) is None
    assert per_layer(material(analysis=Analysis())) is None
    read = Read(study_page(material(analysis=Analysis(layers=(layer_result(left_out={"TTTT": REASON}),)))))
    assert read.ids.count("per-layer") == 1
    for told in ("Per-layer is better by", f"Left out in all 4 choices: TTTT ({REASON})", "best uniform", "Shrinkage"):
        assert told in read.text
    assert any(figure["data"][0].get("customdata") for figure in read.figures())


def test_the_report_of_many_points_is_cut_and_says_so():
    found = tuple(layer_result(1, 1, point=json.dumps({"arm.lambda": n / 10})) for n in range(8))
    made = per_layer(material(analysis=Analysis(layers=found)))
    assert made.blocks[0].text.startswith("bln, lambda=0: ")
    assert made.blocks[-1].text.startswith("The first 6 of 8 arms and points stand above.")
    empty = per_layer(material(analysis=Analysis(layers=(layer_result(networks=0),))))
    assert [block.template for block in empty.blocks] == ["paragraph"]
