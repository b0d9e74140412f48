"""The ledger: the facade over the repositories of one database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine

from bln_search.storage.checkpoints.garbage import GarbageCollector
from bln_search.storage.checkpoints.prunable_files import PrunableFilesRepository
from bln_search.storage.checkpoints.repository import CheckpointRepository
from bln_search.storage.database import Database
from bln_search.storage.engine import make_engine, register_write_check
from bln_search.storage.events import EventRepository
from bln_search.storage.exports.jobs import ExportJobQueue
from bln_search.storage.exports.requests import ExportRepository
from bln_search.storage.listing.studies import StudyLists
from bln_search.storage.listing.trials import TrialLists
from bln_search.storage.migration import (
    check_schema_revision_unchanged,
    create_or_upgrade_tables,
    find_database_schema_revision,
)
from bln_search.storage.monitoring import LedgerMonitor
from bln_search.storage.optuna_url import prepare_optuna_url_and_schema
from bln_search.storage.results.analyses import AnalysisRepository
from bln_search.storage.results.evaluations import ResultRepository
from bln_search.storage.results.layer_searches import LayerSearchRepository
from bln_search.storage.results.probes import ProbeRepository
from bln_search.storage.share_links import ShareLinkRepository
from bln_search.storage.studies.external import ExternalStudyRepository
from bln_search.storage.studies.queue import StudyQueue
from bln_search.storage.studies.repository import StudyRepository
from bln_search.storage.tokens import TokenRepository
from bln_search.storage.trials.attempts import AttemptRepository
from bln_search.storage.trials.repository import TrialRepository
from bln_search.storage.workers import WorkerRepository


class Ledger:
    """Studies and everything that belongs to them, in one database.

    Attributes:
        studies: Studies and their states.
        queue: Studies with an owner, which workers claim.
        external: Studies with results of networks that were trained elsewhere.
        trials: Training runs of a study.
        attempts: Leases on trials, and the reports of the processes that run them.
        results: Evaluations and their outcomes.
        probes: Measurements besides the leaderboard.
        analyses: The analysis of each complete study.
        layer_searches: Searches of per-layer configurations.
        checkpoints: Trained networks.
        garbage: Checkpoint files that no study needs.
        prunable_files: Networks of complete studies that can be deleted to free disk space.
        exports: Exports of trained networks that people request.
        export_jobs: The same exports as jobs of workers.
        events: The event log of each study.
        study_lists: Lists of studies for the service.
        trial_lists: Lists of trials and learning curves for the service.
        tokens: Accounts and access tokens.
        share_links: Links that show one study without an account.
        workers: Worker processes and their heartbeats.
        monitoring: Metrics.
    """

    def __init__(self, engine: Engine, clock: Callable[[], datetime] | None = None) -> None:
        self.database = Database(engine, clock)
        self.studies = StudyRepository(self.database)
        self.queue = StudyQueue(self.database)
        self.external = ExternalStudyRepository(self.database)
        self.trials = TrialRepository(self.database)
        self.attempts = AttemptRepository(self.database)
        self.results = ResultRepository(self.database)
        self.probes = ProbeRepository(self.database)
        self.analyses = AnalysisRepository(self.database)
        self.layer_searches = LayerSearchRepository(self.database)
        self.checkpoints = CheckpointRepository(self.database)
        self.garbage = GarbageCollector(self.database)
        self.prunable_files = PrunableFilesRepository(self.database)
        self.exports = ExportRepository(self.database)
        self.export_jobs = ExportJobQueue(self.database)
        self.events = EventRepository(self.database)
        self.study_lists = StudyLists(self.database)
        self.trial_lists = TrialLists(self.database)
        self.tokens = TokenRepository(self.database)
        self.share_links = ShareLinkRepository(self.database)
        self.workers = WorkerRepository(self.database)
        self.monitoring = LedgerMonitor(self.database)

    def __str__(self) -> str:
        """The URL of the database without a password."""
        return str(self.database)

    def close(self) -> None:
        """Close every connection."""
        self.database.engine.dispose()

    def now(self) -> datetime:
        """The time by the ledger's clock, by which leases expire."""
        return self.database.now()

    def check_schema_unchanged(self) -> None:
        """Raise SchemaChangedError where the database was upgraded since it was opened."""
        with self.database.read_session() as session:
            check_schema_revision_unchanged(session)

    def find_schema_revision(self) -> str | None:
        """The schema revision of the database; None for an empty one."""
        return find_database_schema_revision(self.database.engine)

    def upgrade_schema(self) -> None:
        """Create the tables or upgrade them to this version. Raises LedgerError where a newer version wrote them."""
        create_or_upgrade_tables(self.database.engine)

    def prepare_optuna_url_and_schema(self) -> tuple[str, str | None]:
        """The URL of the database with Optuna's records and, in Postgres, their schema, which is created."""
        return prepare_optuna_url_and_schema(self.database.engine)


def open_ledger_without_schema_check(url: str) -> Ledger:
    """The ledger in the database at `url`, without a check of its schema. Raises LedgerError for an invalid URL."""
    return Ledger(make_engine(url))


def open_and_upgrade_ledger(url: str) -> Ledger:
    """The ledger in the database at `url`, whose tables are created or upgraded to this version.

    Writing raises SchemaChangedError, and writes nothing, once the database was upgraded to another version.
    """
    ledger = open_ledger_without_schema_check(url)
    try:
        ledger.upgrade_schema()
        register_write_check(ledger.database.engine, check_schema_revision_unchanged)
    except BaseException:
        ledger.close()
        raise
    return ledger
