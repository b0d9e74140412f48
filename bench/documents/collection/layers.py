"""Per-layer results and layer geometries of studies."""

from __future__ import annotations

from typing import Any

from bln_search.ranking.analysis import Analysis
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger

MEASURES = ("weight_norm", "effective_rate", "curvature", "radial_curvature", "gain_curvature")


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
