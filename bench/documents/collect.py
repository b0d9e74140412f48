"""Reads finished studies from a ledger into bench/results: `python -m bench.documents.collect STUDY ...`.

STUDY.json is its leaderboard, STUDY_curves.json has its epochs, STUDY_pairs.json compares its rows over examples, and
STUDY_layers.json has its per-layer results if it has any.
The studies of starts and of weight decay of the AP2 paper and that of the layer geometry have files of their own
form. Studies of the BLN paper are also compared with the published orders.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from bench.documents.collection.curves import collect_curves
from bench.documents.collection.pairs import collect_pairs
from bench.documents.collection.tables import collect_geometry, collect_layers, collect_leaderboard
from bench.support.reporting import provenance, write_document
from bln_search.core.states import StudyState
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from papers.experiments.ap2_batch_sizes import BATCH_SIZE_STUDY
from papers.experiments.ap2_cells import DECAY_STUDY
from papers.experiments.bln import EXPERIMENTS
from papers.experiments.collect_ap2 import collect_decay, collect_starts
from papers.experiments.published import collect_comparison, merge_into_result

GEOMETRY_STUDY = "geometry_mnist"


def result_files(study: str) -> tuple[str, ...]:
    """Return the names of the files that `collect_documents` writes for every study of this name."""
    if study == GEOMETRY_STUDY:
        return ("geometry",)
    return (study,) if study.startswith("ap2_") else (study, f"{study}_curves", f"{study}_pairs")


def collect_documents(ledger: Ledger, study: StudyRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and contents of the files of a study."""
    if study.name == GEOMETRY_STUDY:
        yield "geometry", _with_provenance("geometry", collect_geometry(ledger, study))
    elif study.name.startswith("ap2_") and study.name != BATCH_SIZE_STUDY:
        collect = collect_decay if study.name == DECAY_STUDY else collect_starts
        yield study.name, _with_provenance(study.name, collect(ledger, study))
    else:
        yield study.name, collect_leaderboard(ledger, study)
        yield (
            f"{study.name}_curves",
            {**collect_curves(ledger, study), "provenance": _training_provenance(ledger, study)},
        )
        yield f"{study.name}_pairs", {**collect_pairs(ledger, study), "provenance": provenance()}
        layers = collect_layers(ledger, study)
        if layers is not None:
            yield f"{study.name}_layers", {**layers, "provenance": provenance()}
    for experiment in EXPERIMENTS.values():
        if study.name in experiment.studies:
            comparison = collect_comparison(ledger, study, experiment)
            yield experiment.result, merge_into_result(study.name, comparison, experiment)


def _with_provenance(name: str, result: dict[str, Any]) -> dict[str, Any]:
    return {"benchmark": name, "result": result, "provenance": provenance()}


def _training_provenance(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return the provenance of this process, with device, hardware and torch of the training if that was on a GPU."""
    present = provenance()
    trials = ledger.trials.list_trials(study.id)
    trained = next((trial.checkpoint.provenance for trial in trials if trial.checkpoint), {})
    if not str(trained.get("device")).startswith("cuda"):
        return present
    versions = {**present["versions"], "torch": trained["torch"]}
    return {**present, "device": "cuda", "hardware": trained["hardware"], "versions": versions}


def main() -> None:
    """Write the files of studies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="+", help="names of finished studies")
    parser.add_argument("--database", help="database URL")
    options = parser.parse_args()
    with closing(open_and_upgrade_ledger(options.database or load_settings().database_url)) as ledger:
        for name in options.studies:
            study = ledger.studies.get_by_name_or_id(name)
            if study.state is not StudyState.COMPLETE:
                raise SystemExit(f"{name} is {study.state}: only a complete study is read")
            for file, document in collect_documents(ledger, study):
                write_document(file, document)
                print(f"bench/results/{file}.json")


if __name__ == "__main__":
    main()
