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
)
from bln_search.storage.tables.service import AccountRow, ExportRow, TokenRow, WorkerRow
from bln_search.storage.tables.studies import AttemptRow, EventRow, IdempotencyKeyRow, StudyRow, StudyTagRow, TrialRow

__all__ = [
    "NO_FILE",
    "AccountRow",
    "AnalysisRow",
    "AttemptRow",
    "CheckpointRow",
    "EpochWeightsRow",
    "EvaluationRow",
    "EventRow",
    "ExportRow",
    "IdempotencyKeyRow",
    "LayerSearchRow",
    "OutcomesRow",
    "ProbeRow",
    "StudyRow",
    "StudyTagRow",
    "Table",
    "TokenRow",
    "TrialRow",
    "WorkerRow",
]
