"""The ledger: the facade over the repositories of one database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from bln_search.storage.database import Database
from bln_search.storage.engine import make_engine, register_write_check
from bln_search.storage.migration import (
    check_schema_revision_unchanged,
    create_or_upgrade_tables,
    find_database_schema_revision,
)
from bln_search.storage.optuna_url import prepare_optuna_url_and_schema

if TYPE_CHECKING:
    from bln_search.storage.checkpoints.garbage import GarbageCollector
    from bln_search.storage.checkpoints.prunable_files import PrunableFilesRepository
    from bln_search.storage.checkpoints.repository import CheckpointRepository
    from bln_search.storage.events import EventRepository
    from bln_search.storage.exports.jobs import ExportJobQueue
    from bln_search.storage.exports.requests import ExportRepository
    from bln_search.storage.listing.studies import StudyLists
    from bln_search.storage.listing.trials import TrialLists
    from bln_search.storage.monitoring import LedgerMonitor
    from bln_search.storage.results.analyses import AnalysisRepository
    from bln_search.storage.results.evaluations import ResultRepository
    from bln_search.storage.results.layer_searches import LayerSearchRepository
    from bln_search.storage.results.probes import ProbeRepository
    from bln_search.storage.results.streams import StreamRepository
    from bln_search.storage.share_links import ShareLinkRepository
    from bln_search.storage.studies.external import ExternalStudyRepository
    from bln_search.storage.studies.queue import StudyQueue
    from bln_search.storage.studies.repository import StudyRepository
    from bln_search.storage.tokens import TokenRepository
    from bln_search.storage.trials.attempts import AttemptRepository
    from bln_search.storage.trials.repository import TrialRepository
    from bln_search.storage.webhook.deliveries import DeliveryRepository
    from bln_search.storage.workers import WorkerRepository


def _repository(module: str, name: str) -> Any:
    """A repository of a ledger. Its module is loaded when it is first used, since a command uses few of them."""
    return cached_property(lambda ledger: getattr(import_module(f"bln_search.storage.{module}"), name)(ledger.database))


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
        streams: Arms of adaptation on streams.
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
        deliveries: Messages about ends of studies, and their delivery to the webhook.
        workers: Worker processes and their heartbeats.
        monitoring: Metrics.
    """

    studies: StudyRepository = _repository("studies.repository", "StudyRepository")
    queue: StudyQueue = _repository("studies.queue", "StudyQueue")
    external: ExternalStudyRepository = _repository("studies.external", "ExternalStudyRepository")
    trials: TrialRepository = _repository("trials.repository", "TrialRepository")
    attempts: AttemptRepository = _repository("trials.attempts", "AttemptRepository")
    results: ResultRepository = _repository("results.evaluations", "ResultRepository")
    probes: ProbeRepository = _repository("results.probes", "ProbeRepository")
    analyses: AnalysisRepository = _repository("results.analyses", "AnalysisRepository")
    layer_searches: LayerSearchRepository = _repository("results.layer_searches", "LayerSearchRepository")
    streams: StreamRepository = _repository("results.streams", "StreamRepository")
    checkpoints: CheckpointRepository = _repository("checkpoints.repository", "CheckpointRepository")
    garbage: GarbageCollector = _repository("checkpoints.garbage", "GarbageCollector")
    prunable_files: PrunableFilesRepository = _repository("checkpoints.prunable_files", "PrunableFilesRepository")
    exports: ExportRepository = _repository("exports.requests", "ExportRepository")
    export_jobs: ExportJobQueue = _repository("exports.jobs", "ExportJobQueue")
    events: EventRepository = _repository("events", "EventRepository")
    study_lists: StudyLists = _repository("listing.studies", "StudyLists")
    trial_lists: TrialLists = _repository("listing.trials", "TrialLists")
    tokens: TokenRepository = _repository("tokens", "TokenRepository")
    share_links: ShareLinkRepository = _repository("share_links", "ShareLinkRepository")
    deliveries: DeliveryRepository = _repository("webhook.deliveries", "DeliveryRepository")
    workers: WorkerRepository = _repository("workers", "WorkerRepository")
    monitoring: LedgerMonitor = _repository("monitoring", "LedgerMonitor")

    def __init__(self, engine: Engine, clock: Callable[[], datetime] | None = None) -> None:
        self.database = Database(engine, clock)

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
