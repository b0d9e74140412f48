"""The tables of the database."""

from bln_search.storage.tables.base import Table
from bln_search.storage.tables.results import (
    NO_FILE,
    AnalysisRow,
    CheckpointRow,
    EpochWeightsRow,
    EvaluationRow,
    LayerSearchRow,
    OutcomesRow,
    ProbeRow,
    StreamOutcomesRow,
    StreamRow,
)
from bln_search.storage.tables.service import AccountRow, CheckpointStoreRow, ExportRow, TokenRow, WorkerRow
from bln_search.storage.tables.studies import AttemptRow, EventRow, IdempotencyKeyRow, StudyRow, StudyTagRow, TrialRow
from bln_search.storage.tables.webhook import DeliveryRow, WebhookRow

__all__ = [
    "NO_FILE",
    "AccountRow",
    "AnalysisRow",
    "AttemptRow",
    "CheckpointRow",
    "CheckpointStoreRow",
    "DeliveryRow",
    "EpochWeightsRow",
    "EvaluationRow",
    "EventRow",
    "ExportRow",
    "IdempotencyKeyRow",
    "LayerSearchRow",
    "OutcomesRow",
    "ProbeRow",
    "StreamOutcomesRow",
    "StreamRow",
    "StudyRow",
    "StudyTagRow",
    "Table",
    "TokenRow",
    "TrialRow",
    "WebhookRow",
    "WorkerRow",
]
