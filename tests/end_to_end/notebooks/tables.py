"""What a person sees of a table in a browser."""

from __future__ import annotations

import numpy as np

import bln_search

SLOW = """
import time
import torch
from torch import nn
import bln_search

class Slow(list):
    def __iter__(self):
        for item in super().__iter__():
            time.sleep(0.2)
            yield item

torch.manual_seed(0)
model = bln_search.convert(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)))
inputs, classes = torch.randn(300, 4), torch.randint(3, (300,))
train = Slow(zip(inputs.split(10), classes.split(10)))
"""
"""Half a minute of mini-batches would be too long; six seconds show progress."""

EVALUATE = "ranked = bln_search.evaluate_configurations(model, train, list(train)[:9])\nranked"


def make_scores(arms=12):
    """A table of as many rows."""
    scores = np.random.default_rng(0).normal(size=(arms, 20)) + np.linspace(0, 1, arms)[:, None]
    return bln_search.compare({f"arm {number}": list(row) for number, row in enumerate(scores)}, lower_is_better=True)


_READ = """(index) => {
  const rows = [...document.querySelectorAll(".bln-search tbody tr")].filter((row) => row.checkVisibility());
  const at = rows.map((row) => [row.getBoundingClientRect().top, row.children[index].textContent]);
  return at.sort((a, b) => a[0] - b[0]).map(([, text]) => text);
}"""


class Table:
    """The first table of a page."""

    def __init__(self, page):
        self.page = page
        self.root = page.locator(".bln-search").first
        self.root.locator("tbody tr").first.wait_for(timeout=60_000)

    @property
    def headings(self):
        """Headings and their positions."""
        names = self.root.locator("thead :is(th, td)").all_text_contents()
        return {name.strip(): index for index, name in enumerate(names)}

    def column(self, name):
        """The cells of a column from top to bottom."""
        return self.page.evaluate(_READ, self.headings[name])

    def sort(self, name):
        """Click on a heading."""
        self.root.locator("thead :is(th, td)").nth(self.headings[name]).click()

    def sorts(self):
        """Headings by which the rows are sorted, as a screen reader reads them."""
        headers = self.root.locator("[role=columnheader][aria-sort]:visible")
        return {each.get_attribute("aria-label"): each.get_attribute("aria-sort") for each in headers.all()}


def check_sorting(table, name="configuration"):
    """Sort by a column of text: ascending, descending, and as printed again."""
    printed = table.column(name)
    assert len(printed) > 10
    for direction, expected in (("ascending", sorted(printed)), ("descending", sorted(printed, reverse=True))):
        table.sort(name)
        assert table.column(name) == expected
        assert table.sorts()[name] == direction
    table.sort(name)
    assert table.column(name) == printed
    assert set(table.sorts().values()) == {"none"}


def check_picture(table):
    """The picture is visible, in the color of the text, and as wide as its columns need."""
    picture = table.root.locator("figure svg")
    assert picture.bounding_box()["width"] > 300
    assert picture.get_attribute("aria-label") == "Differences to the best row"
    colours = [each.evaluate("(it) => getComputedStyle(it).fill") for each in (picture.locator("text").first,)]
    assert colours == [table.root.evaluate("(it) => getComputedStyle(it).color")]
