"""Synthetic studies for reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from bln_search.core.records import CheckpointRecord
from bln_search.core.states import StudyState, TrialState
from bln_search.specs import parse_study
from bln_search.specs.records import StudyRecord, TrialRecord

TEXT = """
name: small
title: {title}
data: {{name: digits, validation: 200}}
model: {{name: mlp, widths: [8]}}
arms: [{{method: bln}}, {{method: mbn, name: memory-1, lambda: 0.5}}]
training: {{epochs: 1}}
seeds: [0, 1]
"""
START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def study(title="a title", extra_text=""):
    spec = parse_study(TEXT.format(title=json.dumps(title)) + extra_text)
    return StudyRecord(1, spec.name, StudyState.COMPLETE, START, None, {}, spec.canonical_json(), 4)


def trial(number, seed=0, arm="bln", state=TrialState.FINISHED, reason=None, point=None, **origin):
    record = CheckpointRecord(f"{number}.safetensors", f"{number:064x}", 3, "FFFF", 0.25, {"torch": "2.13", **origin})
    checkpoint = record if state is TrialState.FINISHED else None
    return TrialRecord(number, number, arm, "bln", seed, point, state, reason, checkpoint)
