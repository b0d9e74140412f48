"""The manifest of a study: everything its results depend on, as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bln_search.core.records import CheckpointRecord, provenance_without_layer_records
from bln_search.specs.records import StudyRecord, TrialRecord

MANIFEST_FORMAT = 1
"""Increased whenever a key changes its meaning or is removed."""


def build_study_manifest(
    study: StudyRecord, trials: Sequence[TrialRecord], *, machine: Mapping[str, Any], schema: str | None, now: datetime
) -> dict[str, Any]:
    """Build the manifest; only `written_at` differs between two calls.

    `data.sha256` is the digest of the decoded arrays, null where no network recorded it. If networks were trained on
    different data of the same name, `data.differing` lists their digests.

    Args:
        study: The study.
        trials: Its trials.
        machine: Environment of the program that writes the manifest (`collect_environment_info`).
        schema: Revision of the database schema; None where it is unknown.
        now: Current time.
    """
    digests = sorted({digest for digest in map(_find_trained_data_digest, trials) if digest is not None})
    return {
        "format": MANIFEST_FORMAT,
        "written_at": now.astimezone(UTC).isoformat(timespec="seconds"),
        "written_by": dict(machine),
        "schema": schema,
        "study": {
            "id": study.id,
            "name": study.name,
            "state": study.state.value,
            "reason": study.reason,
            "created_at": _iso_time(study.created_at),
            "ended_at": _iso_time(study.ended_at),
            "digest": study.spec.digest,
            "code_changes": list(study.code_changes),
            "spec": study.spec.model_dump(mode="json"),
        },
        "data": {
            "name": study.spec.data.name,
            "sha256": digests[0] if len(digests) == 1 else None,
            "differing": digests if len(digests) > 1 else [],
        },
        "seeds": list(study.spec.all_seeds),
        "trials": [_trial_to_manifest(trial) for trial in trials],
    }


def manifest_to_json(content: Mapping[str, Any]) -> str:
    """The manifest as text, keys sorted."""
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _trial_to_manifest(trial: TrialRecord) -> dict[str, Any]:
    return {
        "id": trial.id,
        "arm": trial.arm,
        "method": str(trial.method),
        "seed": trial.seed,
        "parameters": trial.parameters,
        "state": trial.state.value,
        "reason": trial.reason,
        "data_sha256": _find_trained_data_digest(trial),
        "checkpoint": None if trial.checkpoint is None else _checkpoint_to_manifest(trial.checkpoint),
    }


def _checkpoint_to_manifest(checkpoint: CheckpointRecord) -> dict[str, Any]:
    return {
        "file": checkpoint.file,
        "sha256": checkpoint.sha256,
        "epoch": checkpoint.epoch,
        "judged_under": checkpoint.judged_under,
        "validation_loss": checkpoint.validation_loss,
        "provenance": provenance_without_layer_records(checkpoint.provenance),
    }


def _find_trained_data_digest(trial: TrialRecord) -> str | None:
    digest = None if trial.checkpoint is None else trial.checkpoint.provenance.get("data_sha256")
    return None if digest is None else str(digest)


def _iso_time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="seconds")
