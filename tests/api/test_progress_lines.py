"""A long evaluation prints where it is; the first line comes after ten seconds."""

from __future__ import annotations

import re
import sys

import pytest

import bln_search
from bln_search.api import progress_lines
from tests.api.own_network import make_loader, make_network


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(progress_lines, "_SECONDS_BETWEEN_LINES", 0.0)


@pytest.mark.usefixtures("no_waiting")
def test_a_long_evaluation_counts_the_mini_batches_of_each_loader(capfd):
    train, validation = make_loader(), make_loader(seed=1)
    bln_search.evaluate_configurations(make_network(), train, {"a": validation, "b": list(validation)})
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == ""
    for name, loader in (
        ("train_loader", train),
        ("validation_loader['a']", validation),
        ("validation_loader['b']", validation),
    ):
        counted = [line for line in lines if line.startswith(f"bln-search: {name}: ")]
        batches = len(loader)
        expected = [f"{number} of {batches} mini-batches" for number in range(1, batches + 1)]
        assert [re.search(r": (\d+ of \d+ mini-batches), \d+ s$", line)[1] for line in counted] == expected


@pytest.mark.usefixtures("no_waiting")
def test_each_mini_batch_size_is_counted_in_examples(capfd):
    loader = make_loader(seed=1)
    bln_search.evaluate_configurations(make_network(), make_loader(), loader, batch_sizes=[5, 10])
    err = capfd.readouterr().err
    examples = len(loader.dataset)
    for size in (5, 10):
        assert f"validation_loader in mini-batches of {size}: {examples} of {examples} examples" in err


@pytest.mark.usefixtures("no_waiting")
def test_no_line_without_progress_and_none_where_standard_error_is_closed(capfd, monkeypatch):
    arguments = make_network(), make_loader(), make_loader(seed=1)
    bln_search.evaluate_configurations(*arguments, progress=False)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    bln_search.evaluate_configurations(*arguments)


def test_lines_are_ten_seconds_apart(capfd):
    seconds = iter([0.0, 3.0, 9.9, 10.0, 19.0, 20.5, 40.0])
    lines = progress_lines.ProgressLines(enabled=True, clock=lambda: next(seconds))
    lines.start_part("validation_loader", "examples", 2_000)
    for _ in range(6):
        lines.advance(300)
    assert capfd.readouterr().err.splitlines() == [
        "bln-search: validation_loader: 900 of 2,000 examples, 10 s",
        "bln-search: validation_loader: 1,500 of 2,000 examples, 20 s",
        "bln-search: validation_loader: 1,800 of 2,000 examples, 40 s",
    ]
