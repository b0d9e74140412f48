"""Rows of a ranked table by position, slice and code; its short and its HTML form."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import bln_search
from bln_search import InferenceConfiguration
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.enums import Split
from tests.api.own_network import make_loader, make_network


@pytest.fixture(scope="module")
def ranked():
    return bln_search.evaluate_configurations(make_network(), make_loader(), make_loader(seed=1))


@pytest.fixture(scope="module")
def of_two_sizes():
    return bln_search.evaluate_configurations(make_network(), make_loader(), make_loader(seed=1), batch_sizes=[2, 25])


def codes(rows):
    return [str(row.configuration) for row in rows]


def test_a_code_has_its_best_row(ranked, of_two_sizes):
    for code in codes(ranked):
        assert str(ranked[code].configuration) == code
        assert ranked[InferenceConfiguration(code)].row == ranked[code].row
        rows = [row for row in of_two_sizes if str(row.configuration) == code]
        assert len(rows) == (1 if rows[0].is_independent else 2)
        assert of_two_sizes[code].row == rows[0].row == min((row.row for row in rows), key=lambda row: row.rank)


def test_the_representation_is_one_short_line(ranked):
    best = ranked.best
    loss = f"{best.row.metrics[Split.VALIDATION].loss.mean:.4f}"
    assert repr(ranked) == f"<RankedConfigurations: 16 rows, best {best.configuration} {loss}>"
    assert repr(best) == f"<RankedConfiguration: {best}, rank 1, validation loss {loss}>"
    assert repr(ranked["TTTT"]).startswith("<RankedConfiguration: TTTT (frozen), rank ")


class Cells(HTMLParser):
    """The cells of each row of a table, its paragraphs, and tags that are open."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.paragraphs, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] == "p":
            self.paragraphs.append(data)


def test_the_printed_table_says_in_words_what_is_recommended(ranked):
    assert ranked.recommended.explanation == explain_configuration(ranked.recommended.configuration)
    assert ranked.recommended.explanation in " ".join(str(ranked).split())


def test_a_notebook_shows_the_printed_table(ranked):
    html = Cells(ranked._repr_html_())
    assert not html.open
    header, *rows = html.rows
    assert len(rows) == 16
    assert "rank" in header
    configuration = header.index("configuration")
    loss = next(index for index, name in enumerate(header) if name.startswith("validation loss"))
    for row, shown in zip(ranked, rows, strict=True):
        assert len(shown) == len(header)
        assert shown[configuration] == str(row.configuration)
        assert shown[loss] == f"{row.row.metrics[Split.VALIDATION].loss.mean:.4f}"
    printed = " ".join(str(ranked).split())
    assert html.paragraphs
    assert all(" ".join(text.split()) in printed for text in html.paragraphs)


def test_best_independent_is_the_first_row_without_the_mini_batch(ranked):
    row = ranked.best_batch_independent
    assert row.row == next(row.row for row in ranked if row.configuration.is_deterministic)
    assert row.is_independent
    inputs = torch.randn(10, 6)
    network = make_network()
    bln_search.evaluate_configurations(network, make_loader(), make_loader(seed=1))
    bln_search.apply_configuration(network, row).eval()
    alone = torch.cat([network(example[None]) for example in inputs])
    torch.testing.assert_close(alone, network(inputs))


def test_a_value_for_each_slot_makes_a_row_depend_on_the_position():
    torch.manual_seed(0)
    network = nn.Sequential(bln_search.BLN(6, batch_size=10, semantics="reference"), nn.Linear(6, 2))
    ranked = bln_search.evaluate_configurations(network, make_loader(), make_loader(seed=1), per_slot=True)
    assert not ranked["TTTT"].is_independent
    assert ranked["TTFF"].is_independent
    assert str(ranked.best_batch_independent.configuration) == "TTFF"


def test_a_larger_margin_makes_rows_practically_equal(ranked):
    wide = ranked.with_margin(100)
    assert {row.verdict for row in wide.comparison.rows} == {"best", "practically equal"}
    assert wide.recommended.is_independent
    assert wide.to_records()[0]["configuration"] == ranked.to_records()[0]["configuration"]
    for margin in (-1, float("inf"), True, "0.1"):
        with pytest.raises(ValueError, match="margin is a number of at least 0"):
            ranked.with_margin(margin)


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("120", 120), (None, 160)])
def test_printed_table_has_the_width_of_the_terminal(ranked, monkeypatch, columns, widest):
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    widths = [len(line) for line in str(ranked).splitlines()]
    assert max(widths) <= widest
    assert max(widths) > widest - 40  # sentences fill the width
