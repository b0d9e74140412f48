"""The studies of the AP2 paper's experiments: learning rates, epochs and rows by arm, and the study of weight decay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.documents.collection.curves import MAX_CURVES, values_by_epoch
from bln_search.core.states import TrialState
from bln_search.specs.records import StudyRecord
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.search import Objective
from bln_search.storage.ledger import Ledger
from bln_search.storage.listing.trials import LearningCurve
from bln_search.storage.pagination import PageRequest
from papers.experiments.ap2_cells import OWN_ROWS, decay_run_name

_MEASURES = ("training_loss", "training_accuracy", "validation_loss", "validation_accuracy", "seconds")
RATE = "training.learning_rate"


def collect_starts(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return learning rates, epochs and rows of every arm."""
    curves = _read_curves(ledger, study)
    rows = _rows_by_trial(ledger, study)
    points = [trial for point in ledger.trials.list_sampled_trials_grouped_by_point(study.id) for trial in point]
    arms = {}
    for arm in study.spec.arms:
        full = [curve for curve in curves if curve.trial.arm == arm.label and not curve.trial.is_search_phase_trial]
        searched = [record for record in points if record.trial.arm == arm.label and record.trial.is_search_phase_trial]
        arms[arm.label] = _collect_arm(full, searched, rows)
    return {"spec": study.spec.model_dump(mode="json"), "arms": {arm: value for arm, value in arms.items() if value}}


def collect_decay(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return norms of the first layer's weights, losses by epoch and rows of every run."""
    geometries = ledger.results.read_layer_geometries_by_arm_and_point(study.id)
    rows = _rows_by_trial(ledger, study)
    members: dict[str, list[LearningCurve]] = {}
    for curve in _read_curves(ledger, study):
        point = (curve.trial.parameters or {})["training"]
        name = decay_run_name(curve.trial.arm, point["optimizer"], has_decay=point["weight_decay"] > 0)
        members.setdefault(name, []).append(curve)
    runs = {}
    for name, curves in members.items():
        norms = []
        by_row: dict[str, dict[int, list[float | None]]] = {}
        for trial in (curve.trial for curve in curves):
            records = geometries[trial.arm, trial.point_json][trial.seed]
            norms.append([{"norm": record.weight_norm} for record in records if record.layer == records[0].layer])
            for (row, split), values in rows[trial.id].items():
                if row == OWN_ROWS[trial.arm]:
                    by_row.setdefault(split, {})[trial.seed] = values
        epochs = [curve.epochs for curve in curves]
        losses = {loss: values_by_epoch(epochs, loss) for loss in ("training_loss", "validation_loss")}
        runs[name] = {"weight_norm": values_by_epoch(norms, "norm"), **losses, "rows": by_row}
    return {"spec": study.spec.model_dump(mode="json"), "runs": runs}


def _read_curves(ledger: Ledger, study: StudyRecord) -> Sequence[LearningCurve]:
    return ledger.trial_lists.list_learning_curve_page_plus_one(study.id, PageRequest(MAX_CURVES, "position"), {})


def _collect_arm(
    full: Sequence[LearningCurve],
    searched: Sequence[SampledTrial],
    rows: Mapping[int, Mapping[tuple[str, str], list[float | None]]],
) -> dict[str, Any] | None:
    """Return the values of an arm; None where a network of it has diverged."""
    if not full or any(curve.trial.state is not TrialState.FINISHED for curve in full):
        return None
    by_row: dict[str, dict[str, dict[int, list[float | None]]]] = {}
    for curve in full:
        for (row, split), values in rows[curve.trial.id].items():
            by_row.setdefault(row, {}).setdefault(split, {})[curve.trial.seed] = values
    return {
        "learning_rate": (full[0].trial.parameters or {})[RATE],
        "search": [_searched_point(trial) for trial in searched],
        "epochs": {measure: values_by_epoch([curve.epochs for curve in full], measure) for measure in _MEASURES},
        "rows": by_row,
    }


def _searched_point(record: SampledTrial) -> dict[str, Any]:
    """Return learning rate, seed and objective of a trial of the search; the objective is None if it diverged."""
    return {
        "learning_rate": (record.trial.parameters or {})[RATE],
        "seed": record.trial.seed,
        "objective": record.objective_value(Objective.RUNNING_TRAINING_LOSS),
    }


def _rows_by_trial(ledger: Ledger, study: StudyRecord) -> dict[int, dict[tuple[str, str], list[float | None]]]:
    """Return loss and accuracy of every trial by row and split, with mini-batches of the training size."""
    rows: dict[int, dict[tuple[str, str], list[float | None]]] = {}
    for record in ledger.results.list_clean_evaluations(study.id):
        key = record.evaluation.key
        if key.batch_size == study.spec.training.batch_size:
            row = f"{key.configuration} {key.estimate or '-'}"
            values = [record.evaluation.loss, record.evaluation.accuracy]
            rows.setdefault(record.trial_id, {})[row, str(key.split)] = values
    return rows
