"""What a study's results rest on, in one JSON document: enough to tell whether two runs could differ, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bln_search.core.records import CheckpointRecord, without_drift
from bln_search.reports.protocols import StudyFacts, TrialFacts

FORMAT = 1
"""Raised whenever a key changes its meaning or is taken away."""


def manifest(
    study: StudyFacts,
    trials: Sequence[TrialFacts],
    *,
    machine: Mapping[str, Any],
    schema: str | None,
    now: datetime,
) -> dict[str, Any]:
    """Study, trials, data and the machine that writes this; only `written_at` changes from one call to the next.

    schema: revision of the database's tables, None where it is not at hand. data.sha256 is of the arrays as decoded,
    null where no network recorded it; networks trained on different data of that name are listed by data.differing.
    """
    found = sorted({one for one in map(_data_of, trials) if one is not None})
    return {
        "format": FORMAT,
        "written_at": now.astimezone(UTC).isoformat(timespec="seconds"),
        "written_by": dict(machine),
        "schema": schema,
        "study": {
            "id": study.id,
            "name": study.name,
            "state": study.state.value,
            "reason": study.reason,
            "created_at": _moment(study.created_at),
            "ended_at": _moment(study.ended_at),
            "digest": study.spec.digest,
            "spec": study.spec.model_dump(mode="json"),
        },
        "data": {
            "name": study.spec.data.name,
            "sha256": found[0] if len(found) == 1 else None,
            "differing": found if len(found) > 1 else [],
        },
        "seeds": list(study.spec.seeds),
        "trials": [_trial(one) for one in trials],
    }


def manifest_json(content: Mapping[str, Any]) -> str:
    """The manifest as text, keys sorted."""
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _trial(trial: TrialFacts) -> dict[str, Any]:
    return {
        "id": trial.id,
        "arm": trial.arm,
        "method": str(trial.method),
        "seed": trial.seed,
        "parameters": json.loads(trial.point) if trial.point else None,
        "state": trial.state.value,
        "reason": trial.reason,
        "data_sha256": _data_of(trial),
        "checkpoint": None if trial.checkpoint is None else _checkpoint(trial.checkpoint),
    }


def _checkpoint(kept: CheckpointRecord) -> dict[str, Any]:
    return {
        "file": kept.file,
        "sha256": kept.sha256,
        "epoch": kept.epoch,
        "judged_under": kept.judged_under,
        "validation_loss": kept.validation_loss,
        "provenance": without_drift(kept.provenance),
    }


def _data_of(trial: TrialFacts) -> str | None:
    found = None if trial.checkpoint is None else trial.checkpoint.provenance.get("data_sha256")
    return None if found is None else str(found)


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="seconds")
