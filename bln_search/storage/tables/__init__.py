"""The tables of the database."""

from bln_search.storage.tables.access import AccountRow, TokenRow, WorkerRow
from bln_search.storage.tables.base import Table
from bln_search.storage.tables.exports import ExportRow
from bln_search.storage.tables.results import AnalysisRow, EvaluationRow, LayerSearchRow, OutcomesRow, ProbeRow
from bln_search.storage.tables.studies import EventRow, StudyRow, StudyTagRow, SubmissionRow
from bln_search.storage.tables.trials import AttemptRow, CheckpointRow, SnapshotRow, TrialRow

__all__ = [
    "AccountRow",
    "AnalysisRow",
    "AttemptRow",
    "CheckpointRow",
    "EvaluationRow",
    "EventRow",
    "ExportRow",
    "LayerSearchRow",
    "OutcomesRow",
    "ProbeRow",
    "SnapshotRow",
    "StudyRow",
    "StudyTagRow",
    "SubmissionRow",
    "Table",
    "TokenRow",
    "TrialRow",
    "WorkerRow",
]
