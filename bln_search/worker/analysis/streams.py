"""Ranks the arms of adaptation of a study over its streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bln_search.api.compared_scores import ComparedScores
from bln_search.api.streams.ranked import rank_streams
from bln_search.core.names import format_count_with_noun
from bln_search.core.stream_outcomes import StreamRecord
from bln_search.ranking.stream_results import ComparedAdaptation, StreamMoment, StudyStreams
from bln_search.ranking.stream_windows import choose_window, compute_window_means, find_condition_starts
from bln_search.ranking.streams.arm_summary import StreamArmSummary
from bln_search.reports.charts.chart import make_labels_unique
from bln_search.specs.records import StudyRecord
from bln_search.specs.sections.point_labels import make_label_by_distinct_point
from bln_search.storage.ledger import Ledger

MAX_ROWS = 128
"""Rows that are compared: the outcomes of all of them are in memory."""

Row = tuple[str, str, str]
"""Arm of the study, point, and arm of adaptation."""


def rank_streams_of_study(ledger: Ledger, study: StudyRecord) -> StudyStreams:
    """Compare the arms of adaptation on the networks of all arms and points of a study.

    Rows with other seeds than most, as after a training that diverged, are left out. Of a study with many points the
    first ones are compared, so that no label of a test example selects.

    Raises:
        DamagedRecordError: Stored outcomes are damaged.
        DataError: Rows cannot be compared.
    """
    methods = {adaptation.display_label: adaptation.name for adaptation in study.spec.adaptation}
    by_row: dict[Row, list[StreamRecord]] = defaultdict(list)
    excluded: dict[Row, str] = {}
    for stream in ledger.streams.iter_trial_streams(study.id):
        row = stream.arm, stream.point, stream.record.arm
        if row in by_row or len(by_row) < MAX_ROWS:
            by_row[row].append(replace(stream.record, method=methods.get(stream.record.arm, "")))
        else:
            excluded[row] = f"only the first {MAX_ROWS} rows of the study are compared"
    if not by_row:
        return StudyStreams(reason="no network of this study has adapted to a stream yet")
    excluded |= _find_rows_with_other_streams(by_row)
    labels = _make_labels((*by_row, *excluded))
    records = {
        labels[row]: [replace(record, arm=labels[row]) for record in of_row]
        for row, of_row in by_row.items()
        if row not in excluded
    }
    return _rank(study, records, labels).model_copy(
        update={"excluded": {labels[row]: reason for row, reason in excluded.items()}}
    )


def _rank(study: StudyRecord, records: Mapping[str, list[StreamRecord]], labels: Mapping[Row, str]) -> StudyStreams:
    spec = study.spec.stream
    assert spec is not None  # the caller has its streams
    ranked = rank_streams([record for of_row in records.values() for record in of_row], spec)
    row_of_label = {label: row for row, label in labels.items()}
    layout = next(iter(records.values()))[0].layout
    window = choose_window(len(layout))
    comparison = ranked.comparison
    return StudyStreams(
        rows=tuple(_make_row(arm, row_of_label[arm.arm], comparison, records[arm.arm], window) for arm in ranked.arms),
        networks=ranked.networks,
        orders=spec.orders,
        batches=len(layout),
        window=window,
        starts=find_condition_starts(layout),
        verdict=None if comparison is None else comparison.verdict,
        practical=None if comparison is None else comparison.practical,
    )


def _make_row(
    summary: StreamArmSummary,
    row: Row,
    comparison: ComparedScores | None,
    records: list[StreamRecord],
    window: int,
) -> ComparedAdaptation:
    compared = next((each for each in comparison.rows if each.name == summary.arm), None) if comparison else None
    means = compute_window_means(records, window)
    arm, point, adaptation = row
    return ComparedAdaptation(
        arm=arm,
        point=point,
        adaptation=adaptation,
        label=summary.arm,
        is_recommended=comparison is not None and comparison.recommended.name == summary.arm,
        verdict=compared and compared.verdict,
        error=summary.error,
        deviation=summary.deviation,
        difference=compared and compared.difference,
        low=compared and compared.low,
        high=compared and compared.high,
        p=compared and compared.p,
        loss=summary.loss,
        brier=summary.brier,
        calibration_error=summary.calibration_error,
        errors_by_condition=dict(summary.errors_by_condition),
        seconds_per_batch=summary.seconds_per_batch,
        selected_on=summary.selected_on,
        options=dict(summary.options),
        streams=summary.streams,
        collapses=tuple(
            StreamMoment(seed=seed, order=order, batch=batch) for (seed, order), batch in summary.collapses.items()
        ),
        ends=tuple(
            StreamMoment(
                seed=record.seed, order=record.order, batch=record.outcomes.batches, reason=record.outcomes.end
            )
            for record in records
            if record.outcomes.end
        ),
        errors=means.errors,
        losses=means.losses,
    )


def _find_rows_with_other_streams(by_row: Mapping[Row, list[StreamRecord]]) -> dict[Row, str]:
    """The rows that lack streams which other rows have, with the reason."""
    streams = {row: {(record.seed, record.order) for record in of_row} for row, of_row in by_row.items()}
    most = max(streams.values(), key=len)
    return {
        row: f"it has {format_count_with_noun(len(of_row), 'stream', 'streams')}, and others have {len(most)}"
        for row, of_row in streams.items()
        if of_row != most
    }


def _make_labels(rows: Iterable[Row]) -> dict[Row, str]:
    """The arm of adaptation, after arm and point of the study where these differ."""
    listed = list(dict.fromkeys(rows))
    points = make_label_by_distinct_point(point for _, point, _ in listed)
    arms = {arm for arm, _, _ in listed}
    labels = (
        ", ".join(part for part in (arm if len(arms) > 1 else "", points[point], adaptation) if part)
        for arm, point, adaptation in listed
    )
    return dict(zip(listed, make_labels_unique(labels), strict=True))
