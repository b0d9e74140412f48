"""Makes the records of trackers from the ledger."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bln_search.core.states import TrialState
from bln_search.integrations.trackers.records import (
    Scalar,
    TrackedEpoch,
    TrackedStudy,
    TrackedSummary,
    TrackedTrial,
    hash_values,
)
from bln_search.ranking.analysis import Analysis
from bln_search.reports.export import export_field_types, export_row_fields, leaderboard_csv
from bln_search.reports.leaderboard_columns import LeaderboardView
from bln_search.reports.publication import leaderboard_markdown
from bln_search.reports.sentences.analysis import summarize_analysis
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.events import EventRecord
from bln_search.storage.ledger import Ledger

_MAX_TEXT_ROWS = 200
"""Largest number of rows of the table in Markdown; CSV has all."""

_NOT_METRICS = frozenset({"attempt", "epoch"})


def make_tracked_study(study: StudyRecord) -> TrackedStudy:
    """The record of a study. Its key distinguishes a study from an equal one of another ledger or another account."""
    digest = study.spec.digest
    return TrackedStudy(
        key=hash_values(study.owner, study.name, digest, study.created_at.isoformat()),
        name=study.name,
        title=study.title,
        digest=digest,
        specification=study.spec_json,
        started_at=study.created_at,
    )


def read_tracked_trials(ledger: Ledger, study: StudyRecord, trial_ids: Sequence[int]) -> list[TrackedTrial]:
    """The records of trials, by position; without those that have not started."""
    events: dict[int, list[EventRecord]] = defaultdict(list)
    trials = ledger.trials.load_trials(study.id, trial_ids)
    for event in ledger.events.list_events_of_trials(study.id, trial_ids):  # after the states, which they may be behind
        events[event.trial_id or 0].append(event)
    return [
        _make_tracked_trial(trial, events[trial.id], study)
        for trial in trials
        if trial.state is not TrialState.WAITING or events[trial.id]
    ]


def _make_tracked_trial(trial: TrialRecord, events: Sequence[EventRecord], study: StudyRecord) -> TrackedTrial:
    moments = [event.at for event in events] or [study.created_at]
    return TrackedTrial(
        key=trial.key,
        label=" ".join(part for part in (trial.arm, trial.point_label, f"seed {trial.seed}") if part),
        parameters=dict(_flatten_specification(json.loads(trial.spec_json or "{}"))),
        state=trial.state,
        reason=trial.reason or "",
        started_at=moments[0],
        ended_at=moments[-1],
        epochs=_make_tracked_epochs(events),
    )


def _make_tracked_epochs(events: Sequence[EventRecord]) -> list[TrackedEpoch]:
    """The epochs by number. Of an epoch that was trained twice the first record counts: trackers only append."""
    epochs: dict[int, TrackedEpoch] = {}
    for event in events:
        if event.kind == "epoch" and event.data["epoch"] not in epochs:
            metrics = {
                name: float(value)
                for name, value in event.data.items()
                if name not in _NOT_METRICS and value is not None and math.isfinite(value)
            }
            epochs[event.data["epoch"]] = TrackedEpoch(event.data["epoch"], event.at, metrics)
    return [epochs[number] for number in sorted(epochs)]


def _flatten_specification(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    """The values of nested mappings by dotted names, without null; a list as JSON."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten_specification(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float):
            yield f"{prefix}{name}", value
        elif value is not None:
            yield f"{prefix}{name}", json.dumps(value)


def read_tracked_summary(ledger: Ledger, study: StudyRecord, analysis: Analysis | None) -> TrackedSummary:
    """The ranked table of a study, and what its analysis says; None for a study that is not analyzed."""
    board = ledger.results.rank_rows_of_study(study.id, study.spec)
    view = LeaderboardView.of_analysis(board, analysis)
    columns = list(export_field_types(board, with_analysis=True))
    fields = [export_row_fields(row, view) for row in board.rows]
    table = leaderboard_markdown(replace(board, rows=board.rows[:_MAX_TEXT_ROWS]), analysis)
    if len(board.rows) > _MAX_TEXT_ROWS:
        table += f"\nThe first {_MAX_TEXT_ROWS} of {len(board.rows)} rows."
    sentences = () if analysis is None else summarize_analysis(analysis).summary_lines
    return TrackedSummary(
        state=study.state,
        verdict=_describe_verdict(analysis),
        columns=columns,
        rows=[[row.get(name) for name in columns] for row in fields],
        csv=leaderboard_csv(board, view, study.code_changes),
        text="\n\n".join([f"Study {study.name}: {study.state}", *sentences, table]),
        ended_at=study.ended_at or study.created_at,
    )


def _describe_verdict(analysis: Analysis | None) -> dict[str, str]:
    """The recommended row and the verdict by name; empty without an analysis."""
    if analysis is None:
        return {}
    summary, recommendation = summarize_analysis(analysis), analysis.recommendation
    texts = {
        "recommended": summary.headline or "",
        "verdict": "" if recommendation is None else recommendation.verdict.value,
        "facts": " ".join(summary.facts),
        "warnings": " ".join(summary.warnings),
    }
    if recommendation is not None:
        texts |= {
            "arm": recommendation.arm,
            "configuration": recommendation.configuration,
            "population": recommendation.estimate or "",
            "batch_size": str(recommendation.batch_size),
            "loss": repr(recommendation.loss),
        }
    return {name: text for name, text in texts.items() if text}
