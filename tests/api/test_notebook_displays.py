"""Displays of progress: which one is chosen, and what it shows."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from bln_search.api.notebook_displays import JupyterDisplay, MarimoDisplay, PartProgress, find_notebook_display
from bln_search.api.progress_lines import ProgressLines


class Recorder:
    """Stands for the module `IPython.display`: keeps what is displayed by its id."""

    def __init__(self):
        self.shown = {}

    def display(self, data, *, raw, display_id, update):
        assert raw
        assert update == (display_id in self.shown)
        self.shown[display_id] = data


def test_a_program_and_a_terminal_have_no_display(monkeypatch):
    assert find_notebook_display() is None
    terminal = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert find_notebook_display() is None


def test_a_kernel_has_a_display(monkeypatch):
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", Recorder())
    assert isinstance(find_notebook_display(), JupyterDisplay)
    assert isinstance(ProgressLines(enabled=True)._display, JupyterDisplay)
    assert ProgressLines(enabled=False)._display is None


def test_a_bar_is_updated_in_place_and_names_are_escaped():
    module = Recorder()
    display = JupyterDisplay(module)
    display.close()
    assert module.shown == {}
    for done, total in ((1, 10), (2, 10), (3, None), (0, 0)):
        display.update(PartProgress("<b>part</b>", done, total, str(done)))
    (data,) = module.shown.values()
    assert '<progress value="0" max="1"' in data["text/html"]
    assert "<b>" not in data["text/html"]
    assert data["text/plain"] == "<b>part</b>: 0"
    display.close()
    assert list(module.shown.values()) == [{"text/html": "", "text/plain": ""}]


def test_a_display_that_fails_ends_no_evaluation(monkeypatch):
    seconds = iter([0.0, 1.0, 2.0])
    lines = ProgressLines(enabled=True, clock=lambda: next(seconds))
    monkeypatch.setattr(lines, "_display", JupyterDisplay(None))
    with lines:
        lines.start_part("validation_loader", "examples", 2)
        lines.advance()
        lines.advance()


def test_marimo_shows_a_bar_for_each_part_and_a_spinner_without_a_total():
    marimo = pytest.importorskip("marimo")
    display = MarimoDisplay(marimo)
    for part, done, total in (("a", 3, 10), ("a", 10, 10), ("b", 1, None), ("a", 2, 10)):
        display.update(PartProgress(part, done, total, str(done)))
        assert display._bar.title == part
        assert display._bar.subtitle == str(done)
        assert total is None or display._bar.current == done
    display.close()
    assert display._bar.closed
    display.close()
