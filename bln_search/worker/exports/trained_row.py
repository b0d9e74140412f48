"""Reads a trained network with its row and its figures from the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.api import TrainedRow
from bln_search.api.export.description import ExportMetrics, MetricValues
from bln_search.core.errors import ExportError
from bln_search.core.exports import ExportRecord
from bln_search.core.records import Evaluation, RowKey
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.metrics import SplitMetrics
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.evaluations import EvaluationRecord


def load_trained_row(ledger: Ledger, study: StudyRecord, row: LeaderboardRow, trial: TrialRecord) -> TrainedRow:
    """The network of a trial of the row."""
    evaluations = [
        record.evaluation
        for record in ledger.results.list_evaluations(study.id)
        if record.seed == trial.seed and _is_result_of(record, row)
    ]
    return TrainedRow(
        study=study.name,
        study_digest=study.spec.digest,
        trial=trial.spec,
        checkpoint=trial.require_checkpoint(),
        configuration=row.configuration,
        estimate=row.estimate,
        batch_size=row.batch_size,
        figures=_export_metrics(row, evaluations),
    )


def load_requested_row(ledger: Ledger, record: ExportRecord) -> TrainedRow:
    """The network of an export. Raises ExportError if the row or the network is gone, UnknownStudyError."""
    study = ledger.studies.get(record.study_id)
    board = ledger.results.rank_study(study.id, study.spec)
    row = next((row for row in board.rows if row.key == record.key.row), None)
    if row is None:
        raise ExportError(f"the leaderboard has no row {record.key.row.label} any more")
    return load_trained_row(ledger, study, row, ledger.exported_networks.find_trial(study.id, row.key, record.seed))


def _is_result_of(record: EvaluationRecord, row: LeaderboardRow) -> bool:
    return RowKey.of(record.arm, record.point, record.evaluation.key) == row.key


def _export_metrics(row: LeaderboardRow, evaluations: Sequence[Evaluation]) -> ExportMetrics:
    return ExportMetrics(
        seeds=row.seeds,
        over_seeds={split.value: _mean_values(metrics) for split, metrics in row.metrics.items()},
        this_seed={
            evaluation.key.split.value: MetricValues(loss=evaluation.loss, accuracy=evaluation.accuracy)
            for evaluation in evaluations
            if evaluation.loss is not None and evaluation.accuracy is not None
        },
    )


def _mean_values(metrics: SplitMetrics) -> MetricValues:
    assert metrics.accuracy is not None, "a trained study has cross-entropy, which has an accuracy"
    return MetricValues(
        loss=metrics.loss.mean,
        accuracy=metrics.accuracy.mean,
        loss_deviation=metrics.loss.deviation,
        accuracy_deviation=metrics.accuracy.deviation,
    )
