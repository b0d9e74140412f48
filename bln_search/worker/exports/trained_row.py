"""Reads a trained network with its row and its figures from the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.api.export.description import ExportedRowMetrics, LossAndAccuracy
from bln_search.api.export.study_export import TrainedRow
from bln_search.core.errors import ExportError
from bln_search.core.exports import ExportRecord
from bln_search.core.records import Evaluation, RowKey
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import SplitMetrics
from bln_search.reports.card_ranking import render_card_ranking
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.evaluations import EvaluationRecord
from bln_search.worker.study_code import check_code_of_study


def load_trained_row(
    ledger: Ledger,
    study: StudyRecord,
    board: Leaderboard,
    row: LeaderboardRow,
    trial: TrialRecord,
    *,
    accept_code_change: bool = False,
) -> TrainedRow:
    """The network of a trial of a row of the board.

    Raises:
        CodeChangedError: The code of a plugin is not that of the network, and the change is not accepted.
    """
    code = check_code_of_study(ledger, study, accept_change=accept_code_change)
    evaluations = [
        record.evaluation
        for record in ledger.results.list_clean_evaluations(study.id)
        if record.seed == trial.seed and _is_evaluation_of_row(record, row)
    ]
    stored = ledger.analyses.find_current_analysis(study.id)
    return TrainedRow(
        study=study.name,
        study_digest=study.spec.digest,
        trial=trial.spec,
        checkpoint=trial.get_checkpoint_record(),
        configuration=row.configuration,
        estimate=row.estimate,
        batch_size=row.batch_size,
        figures=_make_export_metrics(row, evaluations),
        code_changes=() if code is None else code.change_sentences,
        ranking=render_card_ranking(board, None if stored is None else stored.analysis, row.key),
    )


def load_requested_row(ledger: Ledger, record: ExportRecord) -> TrainedRow:
    """The network of an export.

    Raises:
        ExportError: The row or the network is gone.
        UnknownStudyError: The study is gone.
        CodeChangedError: The code of a plugin is not that of the network.
        ModelError, DataError: A plugin cannot be loaded.
    """
    study = ledger.studies.get(record.study_id)
    board = ledger.results.rank_rows_of_study(study.id, study.spec)
    row = next((row for row in board.rows if row.key == record.key.row), None)
    if row is None:
        raise ExportError(f"the leaderboard has no row {record.key.row.arm_configuration_and_estimate_label} any more")
    return load_trained_row(
        ledger, study, board, row, ledger.exports.get_trial_to_export(study.id, row.key, record.seed)
    )


def _is_evaluation_of_row(record: EvaluationRecord, row: LeaderboardRow) -> bool:
    return RowKey.of_evaluation(record.arm, record.point, record.evaluation.key) == row.key


def _make_export_metrics(row: LeaderboardRow, evaluations: Sequence[Evaluation]) -> ExportedRowMetrics:
    return ExportedRowMetrics(
        seeds=row.seeds,
        over_seeds={split.value: _make_mean_metric_values(metrics) for split, metrics in row.metrics.items()},
        this_seed={
            evaluation.key.split.value: LossAndAccuracy(loss=evaluation.loss, accuracy=evaluation.accuracy)
            for evaluation in evaluations
            if evaluation.loss is not None
        },
    )


def _make_mean_metric_values(metrics: SplitMetrics) -> LossAndAccuracy:
    accuracy = metrics.accuracy
    return LossAndAccuracy(
        loss=metrics.loss.mean,
        accuracy=None if accuracy is None else accuracy.mean,
        loss_deviation=metrics.loss.deviation,
        accuracy_deviation=None if accuracy is None else accuracy.deviation,
    )
