"""Per-layer configurations in sentences: what was searched, what is confirmed of it, what was left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from bln_search.core.enums import LayerScope, LayerSearch
from bln_search.ranking.per_layer import ConfirmedDifference, LayerResult, LayerRow, NetworkChoice
from bln_search.ranking.statistics.intervals import Interval, interval_of
from bln_search.reports.formatting import rounded, signed
from bln_search.specs.space import written_label

_SEARCHES = {
    LayerSearch.EXACT: "exact enumeration",
    LayerSearch.BEAM: "beam search",
    LayerSearch.COORDINATE: "coordinate search",
    LayerSearch.TPE: "TPE",
    LayerSearch.RACING: "racing",
    LayerSearch.RANDOM: "random search",
}
_LONGEST = 15
"""Digits of a number that is written out."""

_MOST_NAMED = 3
"""Choices that a sentence names."""

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def result_label(result: LayerResult) -> str:
    """The arm and point that were searched, for people."""
    return f"{result.arm}, {written_label(result.point)}" if result.point else result.arm


def effects_heading(result: LayerResult) -> str:
    """What the effects of switches are means of."""
    over = "averaged over all configurations" if result.marginal else "around the best configuration"
    return f"loss under T less loss under F, {over}"


def layer_lines(result: LayerResult) -> list[str]:
    """What a search says, the verdict first; a sentence or two a line."""
    lines = [_verdict(result), *_luck(result.networks), *_on_test(result.networks), _extent(result)]
    if result.unfinished:
        seeds = ", ".join(map(str, result.unfinished))
        told = f"Seed {seeds} is" if len(result.unfinished) == 1 else f"Seeds {seeds} are"
        lines.append(f"{told} still to be searched, and not in these figures.")
    return lines


def left_out_lines(result: LayerResult) -> list[str]:
    """Which options have no value where, and why: choices that lack the same for the same reason stand together."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for choice in result.choices:
        reasons: dict[str, list[str]] = {}
        for option, reason in choice.left_out.items():
            reasons.setdefault(reason, []).append(option)
        for reason, options in reasons.items():
            groups.setdefault((reason, tuple(options)), []).append(choice.name)
    return [
        f"Left out in {_named(choices, len(result.choices))}: {', '.join(options)} ({reason})."
        for (reason, options), choices in groups.items()
    ]


def loss_of(row: LayerRow) -> Interval:
    """The mean loss of a row over networks."""
    return Interval(row.loss, row.loss_half, row.networks)


def accuracy_of(row: LayerRow) -> Interval:
    """Its mean accuracy."""
    return Interval(row.accuracy, row.accuracy_half, row.networks)


def counted(size: str) -> str:
    """A number of any length out of its digits."""
    if len(size) <= _LONGEST:
        return f"{int(size):,}"
    return f"{size[0]}.{size[1]} × 10{str(len(size) - 1).translate(_RAISED)}"


def _verdict(result: LayerResult) -> str:
    found = result.difference
    if not result.networks:
        return "No network is searched yet."
    if found is None:
        unknown = "Whether per-layer is better than uniform is not known: "
        known = _finite(one.difference for one in result.networks)
        if len(known) < len(result.networks):
            return f"{unknown}{_without(len(result.networks) - len(known))} on examples that had no part in choosing."
        return (
            f"{unknown}the confirmed difference is {statistics.fmean(known):+.4f} nats over {_networks(len(known))}, "
            "without an interval."
        )
    if found.better or found.worse:
        return f"Per-layer is {_told(found)} (p = {found.p:.2g})."
    return (
        f"Per-layer and uniform are not told apart: the difference is {found.mean:+.4f} "
        f"[{found.low:+.4f}, {found.high:+.4f}] nats {_where(found)} (p = {found.p:.2g})."
    )


def _told(found: ConfirmedDifference) -> str:
    word, by, low, high = (
        ("better", -found.mean, -found.high, -found.low)
        if found.better
        else ("worse", found.mean, found.low, found.high)
    )
    return f"{word} by {by:.4f} [{low:.4f}, {high:.4f}] nats {_where(found)}"


def _where(found: ConfirmedDifference) -> str:
    return f"on examples that had no part in choosing, over {_networks(found.networks)}"


def _networks(count: int) -> str:
    return "one network" if count == 1 else f"{count} networks"


def _finite(values: Iterable[float]) -> list[float]:
    return [one for one in values if math.isfinite(one)]


def _without(count: int) -> str:
    return f"{_networks(count)} {'has' if count == 1 else 'have'} no finite loss"


def _luck(networks: Sequence[NetworkChoice]) -> list[str]:
    """What choosing had made of luck."""
    known = _finite(one.shrinkage for one in networks)
    if not known:
        return []
    found = interval_of(known)
    if found.mean <= 0:
        return [f"On the examples that chose it, it looks no better than it is ({signed(found)} nats)."]
    return [f"On the examples that chose it, it looks {rounded(found)} nats better than it is."]


def _on_test(networks: Sequence[NetworkChoice]) -> list[str]:
    tested = [one for one in networks if one.test_accuracy is not None]
    pairs = [
        (one.test_loss, one.test_uniform_loss)
        for one in tested
        if one.test_loss is not None and one.test_uniform_loss is not None
        if math.isfinite(one.test_loss) and math.isfinite(one.test_uniform_loss)
    ]
    lost = len(tested) - len(pairs)
    if not pairs:
        return [f"On test {_without(lost)}."] if lost else []
    left = f"; {_without(lost)} there" if lost else ""
    chosen, uniform = (statistics.fmean(side) for side in zip(*pairs, strict=True))
    difference = interval_of([first - second for first, second in pairs])
    return [
        f"On test, which had no part in anything, the chosen ones have {chosen:.4f}, the best uniform ones "
        f"{uniform:.4f}: {signed(difference)} nats over {_networks(len(pairs))}{left}."
    ]


def _extent(result: LayerResult) -> str:
    """How many configurations there are, how many of them were evaluated, and on what."""
    return (
        f"{_chosen(result)}: {counted(result.size)} configurations{_evaluated(result)}. {result.examples:,} validation "
        f"examples in mini-batches of {result.batch_size}, population {result.estimate or 'not read'}; "
        f"on each of {result.folds} folds what the others chose is judged."
    )


def _chosen(result: LayerResult) -> str:
    layers = "one normalization layer" if len(result.layers) == 1 else f"{len(result.layers)} normalization layers"
    if result.scope is LayerScope.GLOBAL:
        return f"One word for all of {layers}"
    if result.scope is LayerScope.GROUPS:
        return f"{len(result.choices)} choices for {layers}, those of a group alike"
    return f"A word for each of {layers}"


def _evaluated(result: LayerResult) -> str:
    if not result.networks:
        return ""
    evaluations = statistics.fmean(one.evaluations for one in result.networks)
    if len(result.size) <= _LONGEST and min(one.evaluations for one in result.networks) >= int(result.size):
        return ", all of them evaluated on each network"
    return f", {evaluations:,.0f} of them evaluated on each network ({_SEARCHES[result.search]})"


def _named(choices: Sequence[str], of: int) -> str:
    if len(choices) == of > 1:
        return f"all {of} choices"
    more = len(choices) - _MOST_NAMED
    return ", ".join(choices[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
