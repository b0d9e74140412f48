"""Registers the network of the recommended row of a study in a tracker."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from bln_search.api.export.description import StudyNetworkDescription
from bln_search.api.export.study_export import TrainedRow, export_trained_row
from bln_search.core.enums import ExportFormat
from bln_search.core.errors import (
    CheckpointStoreError,
    CodeChangedError,
    DataError,
    ExportError,
    MissingPackageError,
    ModelError,
)
from bln_search.data import load_data_set
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.integrations.trackers.records import RecommendedNetwork, hash_values
from bln_search.integrations.trackers.tracker import NetworkRegistry
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.row_choice import FIELD_WORDING, get_recommended_row
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.worker.exports.trained_row import load_trained_row

_UNAVAILABLE = (CheckpointStoreError, CodeChangedError, DataError, ExportError, MissingPackageError, ModelError)
"""Why a study has no network that can be registered; its runs are complete all the same."""

_WORDING = replace(FIELD_WORDING, recommendation="`bln-search export` for a row of your choice")


def register_recommended_network(
    ledger: Ledger,
    study: StudyRecord,
    analysis: Analysis | None,
    tracker: NetworkRegistry,
    environment: ExecutionEnvironment,
) -> str:
    """Register the recommended network, unless the tracker has it.

    Args:
        ledger: Ledger with the study.
        study: The study.
        analysis: Its analysis; None for a study that is not analyzed.
        tracker: The tracker.
        environment: Folders of data and checkpoints.

    Returns:
        A sentence: the name of the registered network, or why there is none.

    Raises:
        TrackerError: The tracker cannot be reached or refuses.
    """
    try:
        row = _load_recommended_row(ledger, study, analysis)
        digest = hash_values(study.spec.digest, row.trial.key, row.checkpoint.sha256, row.row_label)
        name = tracker.find_network(digest)
        if name is not None:
            return f"the recommended network is {name} already"
        with tempfile.TemporaryDirectory(prefix="bln-search-") as folder:
            name = tracker.register_network(_export_network(row, digest, environment, Path(folder) / "network"))
    except _UNAVAILABLE as error:
        return f"no network was registered: {error}"
    return f"the recommended network is registered as {name}"


def _load_recommended_row(ledger: Ledger, study: StudyRecord, analysis: Analysis | None) -> TrainedRow:
    study.check_has_no_external_results()
    board = ledger.results.rank_rows_of_study(study.id, study.spec)
    row = get_recommended_row(board, analysis, _WORDING)
    return load_trained_row(ledger, study, board, row, ledger.exports.get_trial_to_export(study.id, row.key, None))


def _export_network(
    row: TrainedRow, digest: str, environment: ExecutionEnvironment, folder: Path
) -> RecommendedNetwork:
    """Export the network as `bln-search export` does, which compares it with the ranked table."""
    spec = row.trial.data
    data = load_data_set(spec.name, environment.data, environment.cache, spec.own_options)
    forms = frozenset({ExportFormat.SAFETENSORS, ExportFormat.TORCH_EXPORT})
    description, _ = export_trained_row(row, environment.checkpoints, data, folder, forms=forms)
    assert isinstance(data.input_shape, tuple), "a network with several inputs is not exported"
    return RecommendedNetwork(digest, row.row_label, folder, data.input_shape, _count_examples(description))


def _count_examples(description: StudyNetworkDescription) -> int:
    """Examples of a mini-batch of the row; two are enough for one that is independent of the mini-batch."""
    return 2 if description.row.deterministic else description.row.batch_size
