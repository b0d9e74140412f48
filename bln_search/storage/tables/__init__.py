"""The tables of the database."""

from bln_search.storage.tables.access import AccountRow, TokenRow, WorkerRow
from bln_search.storage.tables.base import Table
from bln_search.storage.tables.exports import ExportRow
from bln_search.storage.tables.results import AnalysisRow, EvaluationRow, LayerSearchRow, OutcomesRow, ProbeRow
from bln_search.storage.tables.studies import EventRow, IdempotencyKeyRow, StudyRow, StudyTagRow
from bln_search.storage.tables.trials import AttemptRow, CheckpointRow, EpochWeightsRow, TrialRow

__all__ = [
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
