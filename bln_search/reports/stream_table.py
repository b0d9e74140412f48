"""The arms of adaptation of a study: table, sentences and records, for terminal, page and export."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from bln_search.core.names import format_count_with_noun
from bln_search.core.streams import SelectionData
from bln_search.ranking.stream_results import ComparedAdaptation, StreamMoment, StudyStreams
from bln_search.reports.formatting import format_signed
from bln_search.reports.leaderboard_table import verdict_column
from bln_search.reports.sentences.leaderboard import format_sentence
from bln_search.reports.sentences.significance import choice_text
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.sections.stream import StreamSpec

_SELECTED_ON = {
    SelectionData.FIXED: "–",
    SelectionData.SOURCE: "source validation",
    SelectionData.HELD_OUT: "held-out conditions",
    SelectionData.ORACLE: "TEST LABELS",
}

_FIELDS = (
    *("arm", "adaptation", "error", "deviation", "difference", "low", "high", "p", "loss", "brier"),
    *("calibration_error", "streams"),
)
"""Fields of a record that a row has under their names, after the identity."""


def stream_table(streams: StudyStreams, title: str = "", *, all_columns: bool = False) -> FittedTable:
    """The table: errors in per cent, the least important columns dropped where it is too wide."""
    rows = streams.rows
    conditions = list(dict.fromkeys(name for row in rows for name in row.errors_by_condition))
    numbers: list[tuple[str, list[str], str, int]] = [
        *(
            (f"{name} %", [_percent(row.errors_by_condition.get(name)) for row in rows], "", 6)
            for name in (conditions if len(conditions) > 1 else ())
        ),
        ("NLL", [_number(row.loss) for row in rows], "NLL: negative log-likelihood in nats", 4),
        ("ECE", [_number(row.calibration_error) for row in rows], "ECE: expected calibration error", 3),
        ("Brier", [_number(row.brier) for row in rows], "", 2),
        ("ms", [_milliseconds(row) for row in rows], "ms: time of a mini-batch", 1),
    ]
    columns = [
        Column(
            "arm",
            [f"{row.label} *" if row.is_recommended else row.label for row in rows],
            legend="* recommended",
            is_key=True,
        ),
        verdict_column([row.verdict for row in rows], 9),
        Column(
            "error %",
            [_error(row) for row in rows],
            CellKind.NUMBER,
            legend="error: mean ± standard deviation over streams",
        ),
        Column(
            "difference (95 %)",
            [_difference(row) for row in rows],
            CellKind.NUMBER,
            legend="difference to the best error, in percentage points",
            drop_order=8,
        ),
        Column(
            "ended",
            [_failures(row) for row in rows],
            CellKind.TEXT,
            legend="ended: first mini-batch of a collapse or early end, in how many streams",
            drop_order=10,
        ),
        *(
            Column(name, cells, CellKind.NUMBER, legend=legend, drop_order=order)
            for name, cells, legend, order in numbers
        ),
        Column("selected on", [_SELECTED_ON[row.selected_on] for row in rows], drop_order=5),
    ]
    return FittedTable([column for column in columns if column is not None], title, all_columns=all_columns)


def stream_sentences(streams: StudyStreams, spec: StreamSpec) -> list[str]:
    """What the streams were, which arm is recommended, what collapsed, and what is not compared."""
    facts = [
        f"{format_count_with_noun(streams.networks, 'network', 'networks')}, "
        f"{format_count_with_noun(streams.orders, 'order', 'orders')} ({spec.order}) of "
        f"{format_count_with_noun(streams.batches, 'mini-batch', 'mini-batches')} of {spec.batch_size} test examples, "
        f"reset: {spec.reset}"
    ]
    recommended = next((row.label for row in streams.rows if row.is_recommended), None)
    if recommended is not None and streams.verdict is not None and streams.practical is not None:
        compared = sum(row.verdict is not None for row in streams.rows)
        choice = choice_text(streams.verdict, compared - 1, streams.practical)
        facts.append(f"recommended: {recommended}; {streams.verdict}: {choice}")
    for row in streams.rows:
        if row.collapses:
            facts.append(f"collapsed: {row.label}, {_where(row.collapses, row.streams)}")
        if row.ends:
            facts.append(f"ended early: {row.label}, {_where(row.ends, row.streams)}: {row.ends[0].reason}")
        if row.selected_on is SelectionData.ORACLE:
            facts.append(f"selected by test labels, which no one has at inference: {row.label}")
    facts += [f"not compared: {label}: {reason}" for label, reason in streams.excluded.items()]
    return [format_sentence(fact) for fact in facts]


def stream_records(streams: StudyStreams) -> list[dict[str, Any]]:
    """A flat record for each row, with errors as fractions."""
    return [_make_record(rank, row) for rank, row in enumerate(streams.rows, start=1)]


def _make_record(rank: int, row: ComparedAdaptation) -> dict[str, Any]:
    values: Mapping[str, Any] = row.model_dump(mode="json", include=set(_FIELDS))
    return {
        "rank": rank,
        "label": row.label,
        "parameters": row.point or None,
        "recommended": row.is_recommended,
        "verdict": row.verdict,
        **{name: values[name] for name in _FIELDS},
        **{f"error_{name}": error for name, error in row.errors_by_condition.items()},
        "milliseconds_per_batch": 1000 * row.seconds_per_batch,
        "selected_on": row.selected_on.value,
        "options": ", ".join(f"{name}={value}" for name, value in row.options.items()) or None,
        "collapsed": len(row.collapses),
        "first_collapse": _first_batch(row.collapses),
        "ended": len(row.ends),
        "first_end": _first_batch(row.ends),
    }


def _first_batch(moments: Iterable[StreamMoment]) -> int | None:
    return min((moment.batch for moment in moments), default=None)


def _where(moments: tuple[StreamMoment, ...], streams: int) -> str:
    return f"in {len(moments)} of {streams} streams, first at mini-batch {_first_batch(moments)}"


def _failures(row: ComparedAdaptation) -> str:
    names = {"collapsed": row.collapses, "ended": row.ends}
    parts = [f"{name} at {_first_batch(moments)} ({len(moments)}×)" for name, moments in names.items() if moments]
    return ", ".join(parts) or "–"


def _error(row: ComparedAdaptation) -> str:
    return _percent(row.error) + ("" if row.deviation is None else f" ± {100 * row.deviation:.2f}")


def _difference(row: ComparedAdaptation) -> str:
    if row.difference is None or row.low is None or row.high is None or not row.high - row.low:
        return "–"
    mean, low, high = (format_signed(100 * value, 2) for value in (row.difference, row.low, row.high))
    return f"{mean} [{low}, {high}]"


def _milliseconds(row: ComparedAdaptation) -> str:
    return f"{1000 * row.seconds_per_batch:.3g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"
