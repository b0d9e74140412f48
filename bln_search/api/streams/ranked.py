"""The ranked arms of streams: a table, their comparison, and the outcomes of every stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.api.compare import compare
from bln_search.api.compared_scores import ComparedScore, ComparedScores
from bln_search.api.ranked.result_table import Record, ResultTable
from bln_search.core.stream_outcomes import StreamRecord
from bln_search.core.streams import SelectionData
from bln_search.ranking.streams.arm_summary import StreamArmSummary, StreamScore, score_replicates, summarize_arms
from bln_search.reports.charts.chart import Chart
from bln_search.reports.sentences.leaderboard import format_sentence
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.sections.stream import StreamSpec

PRACTICAL = 0.01
"""Default difference up to which arms are practically equal: one percentage point of the error, or 0.01 nats."""

_MINIMUM = 2
"""Arms and replicates of a comparison."""


@dataclass(frozen=True, repr=False)
class RankedStreams(ResultTable):
    """Arms of test-time adaptation over streams, the best one first; printing it prints the table.

    Attributes:
        arms: Summaries of the arms, in the order of the table.
        comparison: The arms that ended in no stream and were not selected on test labels beside the best one; None for
            fewer than two of them, or for a single stream.
        stream: The streams.
        networks: Number of networks.
        records: Outcomes of every arm on every stream.
        score: The score that ranks.
    """

    arms: tuple[StreamArmSummary, ...]
    comparison: ComparedScores | None
    stream: StreamSpec
    networks: int
    records: tuple[StreamRecord, ...]
    score: StreamScore

    def to_records(self) -> list[Record]:
        """The table as one dictionary for each arm."""
        return [self._make_record(arm) for arm in self.arms]

    def compared(self, arm: str) -> ComparedScore | None:
        """An arm beside the best one; None where it is not compared."""
        rows = () if self.comparison is None else self.comparison.rows
        return next((row for row in rows if row.name == arm), None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.arms)} arms, {self.networks} networks, {self.stream.orders} orders>"

    def _make_record(self, arm: StreamArmSummary) -> Record:
        row = self.compared(arm.arm)
        record: Record = {
            "arm": arm.arm,
            "verdict": None if row is None else row.verdict.value,
            "error": arm.error,
            "deviation": arm.deviation,
            "difference": None if row is None else row.difference,
            "low": None if row is None else row.low,
            "high": None if row is None else row.high,
            "p": None if row is None else row.p,
            "loss": arm.loss,
            "brier": arm.brier,
            "calibration_error": arm.calibration_error,
            "milliseconds_per_batch": 1000 * arm.seconds_per_batch,
            "configuration": arm.configuration,
            "selected_on": arm.selected_on.value,
            "options": ", ".join(f"{name}={value}" for name, value in arm.options.items()),
            "streams": arm.streams,
            "collapsed": len(arm.collapses),
            "ended": len(arm.ends),
        }
        return record | {f"error {name}": value for name, value in arm.errors_by_condition.items()}

    def _make_picture(self) -> Chart | None:
        """Differences to the best arm; None for arms that are not compared."""
        return None if self.comparison is None else self.comparison._make_picture()

    def _table_with_sentences(self) -> tuple[FittedTable, list[str]]:
        rows = [self.compared(arm.arm) for arm in self.arms]
        best = self.arms[0].arm
        verdicts = [
            "ended early" if arm.ends else "–" if row is None else row.verdict.value
            for arm, row in zip(self.arms, rows, strict=True)
        ]
        differences = [
            "–" if row is None or row.name == best else f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]"
            for row in rows
        ]
        numbers = [
            ("difference to the best (95 %)", differences, f"difference: of the {self.score}", 4),
            ("NLL", [_format_optional(arm.loss) for arm in self.arms], "NLL: cross-entropy in nats", 3),
            (
                "ECE",
                [_format_optional(arm.calibration_error) for arm in self.arms],
                "ECE: expected calibration error",
                2,
            ),
            ("ms", [f"{1000 * arm.seconds_per_batch:.1f}" for arm in self.arms], "ms: milliseconds of a mini-batch", 1),
        ]
        columns = [
            Column("arm", [arm.arm for arm in self.arms], is_key=True),
            Column("configuration", [arm.configuration for arm in self.arms], CellKind.CODE, drop_order=5),
            Column("verdict", verdicts),
            Column(
                "error",
                [_format_error(arm) for arm in self.arms],
                CellKind.NUMBER,
                legend="error: mean and standard deviation over streams",
            ),
            *(
                Column(name, cells, CellKind.NUMBER, legend=legend, drop_order=order)
                for name, cells, legend, order in numbers
            ),
        ]
        return FittedTable(columns), [format_sentence(fact) for fact in self._facts()]

    def _facts(self) -> list[str]:
        spec = self.stream
        facts = [
            f"{self.networks} networks, {spec.orders} orders ({spec.order}) of mini-batches of {spec.batch_size}, "
            f"reset: {spec.reset}"
        ]
        if self.networks == 1:
            facts.append(
                "a single stream is not compared: its examples depend on each other; give orders=2 or more"
                if spec.orders == 1
                else "the answer is for other orders of one network, not for new trainings"
            )
        if self.comparison is not None:
            facts.append(f"recommended: {self.comparison.recommended.name} ({self.comparison.verdict})")
        for arm in self.arms:
            if arm.collapses:
                first = min(arm.collapses.values())
                count = f"{len(arm.collapses)} of {arm.streams} streams"
                facts.append(f"the arm {arm.arm} collapsed in {count}, first at mini-batch {first}")
            if arm.ends:
                reason = next(iter(arm.ends.values()))
                facts.append(f"the arm {arm.arm} ended in {len(arm.ends)} of {arm.streams} streams: {reason}")
            if arm.selected_on is SelectionData.ORACLE:
                facts.append(f"the arm {arm.arm} is not compared: no one has these labels at inference")
        return facts


def _format_error(arm: StreamArmSummary) -> str:
    deviation = "" if arm.deviation is None else f" ± {arm.deviation:.3f}"
    return f"{arm.error:.3f}{deviation}"


def _format_optional(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3f}"


def rank_streams(
    records: Sequence[StreamRecord],
    spec: StreamSpec,
    *,
    score: StreamScore = StreamScore.ERROR,
    practical: float | None = None,
    current: str | None = None,
) -> RankedStreams:
    """Return the ranked arms of records.

    Args:
        records: Of every arm on the same streams.
        spec: The streams.
        score: The score that ranks.
        practical: Difference of mean scores up to which arms are practically equal; None for 0.01.
        current: Label of the arm in use.
    """
    check_practical(practical)
    summaries = summarize_arms(records)
    scores = score_replicates([each for each in records if each.selected_on is not SelectionData.ORACLE], score)
    comparison = None
    if len(scores) >= _MINIMUM and len(next(iter(scores.values()))) >= _MINIMUM:
        comparison = compare(
            scores,
            practical=PRACTICAL if practical is None else practical,
            current=current if current in scores else None,
        )
        place = {row.name: number for number, row in enumerate(comparison.rows)}
        summaries.sort(key=lambda arm: place.get(arm.arm, len(place)))
    networks = len({record.seed for record in records})
    return RankedStreams(tuple(summaries), comparison, spec, networks, tuple(records), score)


def check_practical(practical: float | None) -> None:
    """Raise ValueError unless it is a number of at least 0, or None."""
    if practical is not None and not 0 <= practical < math.inf:
        raise ValueError(f"practical={practical}: the difference up to which arms are equal is a number of at least 0")
