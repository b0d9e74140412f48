"""Reads the studies of the AP2 paper's experiments from a ledger into bench/results.

`python -m bench.documents.ap2.collection --database URL` writes a file for each finished study.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from bench.documents.ap2.cells import DATA, STARTS, study_name
from bench.documents.ap2.decay import STUDY as DECAY_STUDY
from bench.documents.ap2.decay import collect_decay
from bench.documents.curves import values_by_epoch
from bench.documents.curves_command import MAX_CURVES
from bench.documents.experiments import finished_study
from bench.support.reporting import provenance, write_document
from bln_search.core.states import TrialState
from bln_search.settings import load_settings
from bln_search.specs.records import SampledTrial, StudyRecord
from bln_search.specs.sections.search import Objective
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from bln_search.storage.listing.trials import LearningCurve
from bln_search.storage.pagination import PageRequest

_MEASURES = ("training_loss", "training_accuracy", "validation_loss", "validation_accuracy", "seconds")
RATE = "training.learning_rate"


def collect_study(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return learning rates, epochs and rows of every arm; None for an unfinished study."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    curves = ledger.listing.list_learning_curve_page_plus_one(study.id, PageRequest(MAX_CURVES, "position"), {})
    rows = _rows_by_trial(ledger, study)
    points = [trial for point in ledger.trials.list_sampled_trials_grouped_by_point(study.id) for trial in point]
    arms = {}
    for arm in study.spec.arms:
        members = [curve for curve in curves if curve.trial.arm == arm.label]
        full = [curve for curve in members if not curve.trial.is_search_phase_trial]
        searched = [record for record in points if record.trial.arm == arm.label and record.trial.is_search_phase_trial]
        arms[arm.label] = _collect_arm(full, searched, rows)
    return {"spec": study.spec.model_dump(mode="json"), "arms": {arm: value for arm, value in arms.items() if value}}


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
        "epochs": {
            measure: values_by_epoch([[epoch[measure] for epoch in curve.epochs] for curve in full])
            for measure in _MEASURES
        },
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


def main() -> None:
    """Write the finished studies of a ledger into bench/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="database URL")
    options = parser.parse_args()
    collectors = {study_name(data, start): collect_study for data in DATA for start in STARTS}
    with closing(open_and_upgrade_ledger(options.database or load_settings().database_url)) as ledger:
        for name, collect in {**collectors, DECAY_STUDY: collect_decay}.items():
            result = collect(ledger, name)
            if result is not None:
                write_document(name, {"benchmark": name, "result": result, "provenance": provenance()})
                print(f"{name}: written")


if __name__ == "__main__":
    main()
