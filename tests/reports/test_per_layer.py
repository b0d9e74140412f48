"""Per-layer configurations in sentences, tables and a chart."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm
from bln_search.core.loss_description import LossDescription
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.per_layer import LayerChoiceOptions, PerLayerResult
from bln_search.reports.charts.per_layer import MARK, layer_switch_effects_heat_map
from bln_search.reports.page.html import render_study_report_html
from bln_search.reports.page.ranking import per_layer_section
from bln_search.reports.per_layer_tables import (
    best_configurations_table,
    best_per_layer_configurations_table,
    layer_switch_effects_table,
    selected_configurations_by_network_table,
    uniform_configurations_table,
)
from bln_search.reports.sentences.per_layer import (
    excluded_option_sentences,
    format_count_from_digits,
    per_layer_sentences,
)
from bln_search.reports.tables.columns import CellKind
from tests.ranking.layers import EQUAL, REASON, WORSE, network, per_layer_result
from tests.reports.pages import ParsedPage, make_report_context


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(per_layer_result(), id="better"),
        pytest.param(per_layer_result(difference=WORSE), id="worse"),
        pytest.param(per_layer_result(difference=EQUAL), id="not significant"),
        pytest.param(per_layer_result(difference=EQUAL.model_copy(update={"networks": 1})), id="one network"),
        pytest.param(per_layer_result(networks=1, difference=None), id="no interval"),
        pytest.param(per_layer_result(networks=0), id="no network"),
        pytest.param(per_layer_result(scope=LayerScope.GLOBAL), id="one configuration for all layers"),
        pytest.param(per_layer_result(scope=LayerScope.GROUPS), id="groups of layers"),
        pytest.param(per_layer_result(56, search=LayerSearchAlgorithm.BEAM, pending_seeds=(3, 4)), id="beam search"),
        pytest.param(per_layer_result(pending_seeds=(3,)), id="one pending seed"),
    ],
)
def test_sentences(result, snapshot):
    assert per_layer_sentences(result) == snapshot


@pytest.mark.parametrize("from_json", [False, True])
def test_network_without_a_finite_loss_is_not_averaged(from_json, snapshot):
    infinite = network(0, loss=math.inf, test_loss=math.inf)
    result = per_layer_result().model_copy(update={"networks": (infinite, network(1)), "difference": None})
    if from_json:
        result = PerLayerResult.model_validate_json(result.model_dump_json())
    assert per_layer_sentences(result) == snapshot(name="one of two networks")
    infinite_network = network(0, loss=math.inf, uniform_loss=math.inf, test_loss=None)
    result = result.model_copy(update={"networks": (infinite_network,)})
    assert per_layer_sentences(result) == snapshot(name="both losses of one network")
    assert "nan" not in str(selected_configurations_by_network_table(result).rows)


def test_networks_without_a_test_loss_have_no_sentence_on_test():
    networks = tuple(network(seed, test_loss=None, test_accuracy=None) for seed in (0, 1))
    sentences = per_layer_sentences(per_layer_result().model_copy(update={"networks": networks}))
    assert not any("On test" in text for text in sentences)


def test_long_counts_are_written_in_scientific_notation():
    assert format_count_from_digits("999999999999999") == "999,999,999,999,999"
    assert format_count_from_digits("1" + "0" * 20) == "1.0 × 10²⁰"


def test_choices_with_the_same_exclusions_are_grouped():
    assert excluded_option_sentences(per_layer_result()) == []
    everywhere = excluded_option_sentences(per_layer_result(excluded={"TTTT": REASON, "TTTF": REASON}))
    assert everywhere == [f"Excluded in all 4 choices: TTTT, TTTF ({REASON})."]
    choices = [
        LayerChoiceOptions(
            name=f"norm{n}", layers=(f"norm{n}",), options=("TTFF",), excluded={"TTTT": REASON} if n else {}
        )
        for n in range(6)
    ]
    assert excluded_option_sentences(per_layer_result(choices=tuple(choices))) == [
        f"Excluded in norm1, norm2, norm3 and 2 more: TTTT ({REASON})."
    ]


@pytest.mark.parametrize("layers", [1, 4, 56])
def test_table_has_one_column_per_layer_and_a_uniform_row(layers):
    table = best_configurations_table(per_layer_result(layers, rows=12), 10)
    assert [column.name for column in table.columns[3:]] == [f"norm{position}" for position in range(layers)]
    assert {column.kind for column in table.columns[3:]} == {CellKind.CODE}
    assert [row[0] for row in table.rows] == [*(str(position) for position in range(1, 11)), "best uniform"]
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert table.rows[-1][3:] == ["TTTT"] * layers
    assert table.rows[0][1:3] == ["0.400 ± 0.010", "90.0 ± 1.0"]
    assert len(uniform_configurations_table(per_layer_result(layers)).rows) == 16


def test_uniform_configuration_omits_statistics_a_layer_lacks():
    result = per_layer_result(2)
    row = result.rows[0].model_copy(update={"configuration": "TT--.FFFF"})
    mixed = result.model_copy(update={"rows": (row,)})
    assert best_configurations_table(mixed, 10).rows[-1][3:] == ["TT--", "TTTT"]


def test_each_network_has_its_figures():
    (row,) = selected_configurations_by_network_table(per_layer_result(2, networks=1)).rows
    assert row == [
        *("0", "0.4780", "0.4880", "0.0100", "0.5000", "-0.0120"),
        *("0.4900", "0.5000", "65,536", "TTFF", "TTFF.TTFF"),
    ]
    untested = per_layer_result().model_copy(update={"networks": (network(0, test_loss=None),)})
    assert selected_configurations_by_network_table(untested).rows[0][6] == "–"


def test_effects_are_marked_where_their_interval_excludes_zero():
    table = layer_switch_effects_table(per_layer_result())
    assert [column.name for column in table.columns] == ["Choice", "E_B", "Std_B", "E_F", "Std_F"]
    assert table.rows[0] == [
        *("norm0", f"-0.030 ± 0.015 {MARK}", f"-0.020 ± 0.015 {MARK}"),
        *("-0.010 ± 0.015", "0.000 ± 0.015"),
    ]
    assert "averaged over all configurations" in table.title
    assert "around the best configuration" in layer_switch_effects_table(per_layer_result(marginal=False)).title


@pytest.mark.parametrize("layers", [1, 4, 56])
def test_chart_is_centred_on_zero_and_labelled(layers):
    from plotly import graph_objects

    chart = layer_switch_effects_heat_map(per_layer_result(layers, marginal=layers < 56))
    graph_objects.Figure(chart.figure)
    json.dumps(chart.figure, allow_nan=False)
    (trace,) = chart.figure["data"]
    assert trace["zmax"] == -trace["zmin"] == 0.03
    assert trace["text"][0] == [MARK, MARK, "", ""]
    assert trace["customdata"][0][0] == "-0.030 ± 0.015"
    assert len(trace["z"]) == layers
    assert chart.figure["layout"]["height"] >= 22 * layers
    assert ("averaged over all" if layers < 56 else "around the best configuration") in chart.caption
    assert len(list(csv.DictReader(io.StringIO(chart.rows_as_csv)))) == 4 * layers


@pytest.mark.parametrize(
    ("loss", "definition", "axis"),
    [
        (LossDescription("squared error", "variances"), "In variances: loss under T", "effect on the loss (variances)"),
        (LossDescription("my_loss"), "Loss under T", "effect on the loss"),
    ],
)
def test_a_result_names_its_loss_and_has_no_column_of_an_accuracy_that_is_missing(loss, definition, axis):
    absent = {"accuracy": None, "accuracy_half": None}
    result = per_layer_result(2, loss=loss)
    rows = {name: tuple(row.model_copy(update=absent) for row in getattr(result, name)) for name in ("rows", "uniform")}
    result = result.model_copy(update=rows)
    best, uniform = best_configurations_table(result, 10), uniform_configurations_table(result)
    assert [column.name for column in best.columns] == ["Place", "Validation loss", "norm0", "norm1"]
    assert [column.name for column in uniform.columns] == ["Configuration", "Validation loss"]
    assert {len(row) for row in (*best.rows, *uniform.rows)} == {4, 2}
    printed = best_per_layer_configurations_table(result, describe_loss=True)
    assert [column.name for column in printed.columns] == ["rank", "configuration", "validation loss"]
    assert printed.columns[-1].legend.startswith(f"loss: {loss.text}")
    assert layer_switch_effects_table(result).title.startswith(definition)
    chart = layer_switch_effects_heat_map(result)
    assert chart.caption.startswith(definition)
    assert chart.figure["data"][0]["colorbar"]["title"]["text"] == axis
    assert not any("nats" in sentence for sentence in per_layer_sentences(result))


def test_report_has_a_section_for_per_layer_searches():
    assert per_layer_section(make_report_context()) is None
    assert per_layer_section(make_report_context(analysis=Analysis())) is None
    parsed_page = ParsedPage(
        render_study_report_html(
            make_report_context(analysis=Analysis(layers=(per_layer_result(excluded={"TTTT": REASON}),)))
        )
    )
    assert parsed_page.ids.count("per-layer") == 1
    for text in (
        "Per-layer configurations are significantly better by",
        f"Excluded in all 4 choices: TTTT ({REASON})",
        "best uniform",
        "Selection bias",
    ):
        assert text in parsed_page.text
    assert any(figure["data"][0].get("customdata") for figure in parsed_page.figures())


def test_a_selection_bias_whose_interval_contains_zero_is_not_called_optimistic():
    networks = (network(0, apparent=0.488), network(1, apparent=0.48))  # biases of 0 and 0.008
    text = per_layer_sentences(per_layer_result().model_copy(update={"networks": networks}))[1]
    assert "not significantly optimistic" in text
    assert "+0.00" in text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((0, 0), "65,536 configurations, all of them evaluated on each network. "),
        ((1, 1), "all of them evaluated on each network; 1 of these has no finite loss and no row. "),
        ((1_200, 1_200), "all of them evaluated on each network; 1,200 of these have no finite loss and no row. "),
        ((0, 3), "all of them evaluated on each network; 0 to 3 of these have no finite loss and no row. "),
    ],
)
def test_the_count_of_configurations_says_how_many_have_no_loss(counts, text):
    networks = tuple(network(seed, not_finite=count) for seed, count in enumerate(counts))
    result = per_layer_result().model_copy(update={"networks": networks})
    assert text in " ".join(per_layer_sentences(result))
