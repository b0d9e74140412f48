"""The leaderboard of a study with the values of every seed, its per-layer results, and its layer geometries."""

from __future__ import annotations

import json
from typing import Any

from bench.support.reporting import provenance
from bln_search.core.configuration import InferenceConfiguration
from bln_search.ranking.analysis import Analysis
from bln_search.reports.export import row_to_json_fields
from bln_search.specs.records import StudyRecord
from bln_search.specs.sections.space import format_point
from bln_search.storage.ledger import Ledger

MEASURES = ("weight_norm", "effective_rate", "curvature", "radial_curvature", "gain_curvature")


def collect_leaderboard(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return the leaderboard of a study as JSON values."""
    environment = provenance()
    board = ledger.results.rank_rows_of_study(study.id, study.spec)
    by_seed: dict[str, dict[str, Any]] = {}
    by_condition: dict[str, dict[str, dict[str, Any]]] = {}
    for record in ledger.results.list_evaluations_for_ranking(study.id):
        key = record.evaluation.key
        row = row_label(record.arm, record.point, key.configuration, key.estimate, key.batch_size)
        rows = by_condition.setdefault(key.condition, {}) if key.condition else by_seed
        rows.setdefault(row, {})[f"{key.split} seed {record.seed}"] = [
            record.evaluation.loss,
            record.evaluation.accuracy,
        ]
    trials = ledger.trials.list_trials(study.id)
    return {
        "study": study.name,
        "title": study.spec.title,
        "state": study.state,
        "ranked_on": board.ranked_on,
        "spec": study.spec.model_dump(mode="json"),
        "rows": [row_to_json_fields(row) for row in board.rows],
        "loss_and_accuracy_by_seed": by_seed,
        **({"loss_and_accuracy_by_condition": by_condition} if by_condition else {}),
        "kept_epochs": {
            " ".join(
                part for part in (trial.arm, trial.point_label, f"seed {trial.seed}") if part
            ): trial.checkpoint.epoch
            for trial in trials
            if trial.checkpoint
        },
        "trained_with": [trial.checkpoint.provenance for trial in trials if trial.checkpoint][:1],
        "trained_at_revision": environment["revision"],
        "written": environment,
    }


def row_label(
    arm: str, point: str | None, configuration: InferenceConfiguration, estimate: str | None, batch_size: int
) -> str:
    """Return the name of a row in the files: arm with its parameters, configuration, estimate, mini-batch size."""
    name = " ".join(part for part in (arm, format_point(json.loads(point or "{}"))) if part)
    return f"{name} {configuration} {estimate or '-'} {batch_size}"


def collect_layers(ledger: Ledger, study: StudyRecord) -> dict[str, Any] | None:
    """Return the per-layer results of an analysed study, each with its first twenty rows; None without any."""
    stored = ledger.analyses.find_current_analysis(study.id)
    layers = (Analysis() if stored is None else stored.analysis).layers
    if not layers:
        return None
    shortened = [result.model_copy(update={"rows": result.rows[:20]}).model_dump(mode="json") for result in layers]
    return {"study": study.name, "spec": study.spec.model_dump(mode="json"), "layers": shortened}


def collect_geometry(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return every measure by arm, layer and epoch, one value for each seed."""
    arms: dict[str, dict[str, dict[str, list[list[float | None]]]]] = {}
    for (arm, _), by_seed in ledger.results.read_layer_geometries_by_arm_and_point(study.id).items():
        arms[arm] = {}
        for layer in dict.fromkeys(record.layer for records in by_seed.values() for record in records):
            members = [[record for record in records if record.layer == layer] for records in by_seed.values()]
            arms[arm][layer] = {
                measure: [[getattr(record, measure) for record in epoch] for epoch in zip(*members, strict=True)]
                for measure in MEASURES
            }
    return {"spec": study.spec.model_dump(mode="json"), "arms": arms}
