"""Searches for spaces that are too large to enumerate. Each spends a judge's evaluations; the best is the judge's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bln_search.core.enums import LayerSearch
from bln_search.evaluation.tree.trie import Digits
from bln_search.search.layers.objective import BudgetSpentError, Judge
from bln_search.search.layers.racing import racing
from bln_search.search.layers.tpe import tpe

_TOGETHER = 64
"""Random configurations that are asked for at once."""


@dataclass(frozen=True)
class Options:
    """width: beginnings that go on in a beam. restarts: uniform configurations a coordinate search starts from."""

    width: int = 8
    restarts: int = 4
    seed: int = 0


def search(kind: LayerSearch, judge: Judge, options: Options | None = None) -> None:
    """Spend what the judge has left, or less where the search ends by itself. Uniform configurations come first."""
    chosen = options or Options()
    try:
        uniform = judge.space.uniform().values()
        if uniform:
            judge.losses(np.array(list(uniform), np.uint8))
        _SEARCHES[kind](judge, chosen)
    except BudgetSpentError:
        return


def beam(judge: Judge, options: Options) -> None:
    """Choice by choice: every option behind each of the best beginnings, the rest as in the best uniform configuration.

    Passes over the choices are repeated, the rest then as in the best of the last one, until a pass finds nothing
    better.
    """
    rest = judge.best.digits
    while True:
        before = judge.best.loss
        beginnings: list[tuple[int, ...]] = [()]
        for place, radix in enumerate(judge.space.radices):
            longer = [(*beginning, digit) for beginning in beginnings for digit in range(radix)]
            losses = judge.losses(np.array([(*one, *rest[place + 1 :]) for one in longer], np.uint8))
            beginnings = [longer[at] for at in np.argsort(losses, kind="stable")[: options.width]]
        if not judge.best.loss < before:
            return
        rest = judge.best.digits


def coordinate(judge: Judge, options: Options) -> None:
    """One choice after the other, all its options with the others as they are, until a round changes nothing.

    It starts from the best uniform configurations, then from random ones, as often as `restarts` says.
    """
    uniform = np.array(list(judge.space.uniform().values()), np.uint8).reshape(-1, len(judge.space.radices))
    order = np.argsort(judge.losses(uniform), kind="stable") if len(uniform) else np.array([], np.int64)
    starts = [tuple(int(digit) for digit in uniform[place]) for place in order[: options.restarts]]
    draw = np.random.default_rng(options.seed)
    while len(starts) < options.restarts:
        starts.append(tuple(int(draw.integers(radix)) for radix in judge.space.radices))
    for start in starts:
        _descend(judge, start)


def _descend(judge: Judge, start: tuple[int, ...]) -> None:
    present, unchanged, place = list(start), 0, 0
    choices = len(present)
    while unchanged < choices:
        tried = np.array([present] * judge.space.radices[place], np.uint8)
        tried[:, place] = np.arange(judge.space.radices[place])
        best = int(np.argmin(judge.losses(tried)))
        unchanged = unchanged + 1 if best == present[place] else 1
        present[place] = best
        place = (place + 1) % choices


def random(judge: Judge, options: Options) -> None:
    """Evenly drawn."""
    draw = np.random.default_rng(options.seed)
    size, asked = judge.space.size, 0
    while asked < 20 * size:
        asked += _TOGETHER
        judge.losses(_drawn(judge, draw, _TOGETHER))


def _drawn(judge: Judge, draw: np.random.Generator, count: int) -> Digits:
    return np.stack([draw.integers(radix, size=count) for radix in judge.space.radices], axis=1).astype(np.uint8)


_SEARCHES: Mapping[LayerSearch, Callable[[Judge, Options], None]] = {
    LayerSearch.BEAM: beam,
    LayerSearch.COORDINATE: coordinate,
    LayerSearch.TPE: lambda judge, options: tpe(judge, options.seed),
    LayerSearch.RACING: lambda judge, options: racing(judge, options.seed),
    LayerSearch.RANDOM: random,
}
