"""Displays of progress in notebooks, which are updated in place and disappear at the end."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol
from uuid import uuid4


@dataclass(frozen=True)
class PartProgress:
    """How far a part of an evaluation is.

    Attributes:
        part: Its name.
        done: Units that are done.
        total: All units; None where their number is unknown.
        text: What is done in words, with the seconds so far.
    """

    part: str
    done: int
    total: int | None
    text: str


class NotebookDisplay(Protocol):
    """An output of a cell that shows progress."""

    def update(self, progress: PartProgress) -> None:
        """Show how far an evaluation is."""

    def close(self) -> None:
        """Remove the output."""


def find_notebook_display() -> NotebookDisplay | None:
    """A display in the output of the running cell of Jupyter or marimo; None elsewhere, and in threads of marimo.

    Neither is imported: a notebook has loaded what it runs in.
    """
    ipython, marimo = sys.modules.get("IPython"), sys.modules.get("marimo")
    if marimo is not None and hasattr(marimo, "running_in_notebook") and marimo.running_in_notebook():
        return MarimoDisplay(marimo)
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if getattr(shell, "kernel", None) is None:  # the shell of a terminal has none
        return None
    return JupyterDisplay(sys.modules["IPython.display"])


class JupyterDisplay:
    """A bar of HTML, which needs no widgets. display: The module `IPython.display`."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._id = f"bln-search-{uuid4().hex}"
        self._is_shown = False

    def update(self, progress: PartProgress) -> None:
        """Show the bar with its text below; without a total it moves to and fro."""
        numbers = "" if progress.total is None else f' value="{progress.done}" max="{max(1, progress.total)}"'
        bar = f'<progress{numbers} aria-label="{escape(progress.part)}" style="width:20rem"></progress>'
        text = f"{progress.part}: {progress.text}"
        self._publish(f"<div>{bar} {escape(text)}</div>", text)

    def close(self) -> None:
        """Leave an empty output."""
        if self._is_shown:
            self._publish("", "")

    def _publish(self, html: str, text: str) -> None:
        is_shown, self._is_shown = self._is_shown, True  # an interrupt may come while it is published
        self._display.display({"text/html": html, "text/plain": text}, raw=True, display_id=self._id, update=is_shown)


class MarimoDisplay:
    """Bars of marimo, one after another. marimo: The package."""

    def __init__(self, marimo: Any) -> None:
        self._marimo = marimo
        self._part: tuple[str, int | None] | None = None
        self._context: Any = None
        self._bar: Any = None
        self._done = 0

    def update(self, progress: PartProgress) -> None:
        """Show a bar for the part, or a spinner where its total is unknown."""
        if self._part != (progress.part, progress.total) or progress.done < self._done:
            self.close()
            status = self._marimo.status
            self._context = (
                status.progress_bar(total=progress.total, title=progress.part, show_rate=False, remove_on_exit=True)
                if progress.total
                else status.spinner(title=progress.part, remove_on_exit=True)
            )
            self._part, self._done = (progress.part, progress.total), 0
            self._bar = self._context.__enter__()
        step = {"increment": progress.done - self._done} if progress.total else {}
        self._done = progress.done
        self._bar.update(**step, subtitle=progress.text)

    def close(self) -> None:
        """Remove the bar."""
        context, self._context = self._context, None
        if context is not None:
            context.__exit__(None, None, None)
