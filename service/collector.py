"""What the monitoring reads of database and disk when it asks: queue, workers, records, room."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core.checkpoints import Folder
from bln_search.core.errors import BlnSearchError
from bln_search.settings import Settings
from bln_search.storage.belonging import is_mark
from bln_search.storage.clock import DatabaseClock
from bln_search.storage.monitoring import LedgerFigures, ledger_figures, records_by_state
from service.ttl_cache import Cached, T

_log = logging.getLogger(__name__)
_FRESH = 5.0
"""Seconds for which what was read of database and disk is given out again: anybody may ask, without a token."""

_COUNTED = 30.0
"""The same for what is counted one by one, records and files, of which there may be very many."""


class LedgerCollector(Collector):
    """Database and disk as they are. What cannot be read is left out, so that nothing stale is told."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._ledger = Cached(lambda: _read_ledger(engine), _FRESH, longest=6 * _FRESH)
        self._records = Cached(lambda: _read(lambda: records_by_state(engine)), _COUNTED)
        self._disk = Cached(lambda: disk_with_least_room(settings), _FRESH)
        self._files = Cached(lambda: checkpoints_held(settings), _COUNTED)

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        figures, records = self._ledger(), self._records()
        yield _gauge("database_up", "whether the database can be read", figures is not None)
        if figures is not None:
            yield from _of_ledger(figures)
        if records is not None:
            yield _of_records(records)
        disk = self._disk()
        if disk is not None:
            yield _gauge(
                "disk_bytes", "size of the disk of home, checkpoints or database, whichever has least room", disk[0]
            )
            yield _gauge("disk_free_bytes", "bytes that are free there", disk[1])
        held = self._files()
        if held is not None:
            yield _gauge("checkpoint_files", "files of trained networks", held[0])
            yield _gauge("checkpoint_bytes", "bytes of these files", held[1])


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"bln_search_{name}", text, value=float(value))


def _read(read: Callable[[], T]) -> T | None:
    """What is read of the database; None where it cannot be read."""
    try:
        return read()
    except (BlnSearchError, SQLAlchemyError) as error:
        _log.warning("no figures of the ledger: %s", error)
        return None


def _read_ledger(engine: Engine) -> LedgerFigures | None:
    return _read(lambda: ledger_figures(engine, DatabaseClock(engine)()))


def _of_ledger(figures: LedgerFigures) -> Iterator[Metric]:
    since = figures.oldest_waiting
    waited = 0.0 if since is None else max(0.0, (figures.at - since).total_seconds())
    yield _gauge("database_bytes", "size of the database", figures.size)
    yield _gauge("queue_studies", "studies that wait for a worker", figures.waiting)
    yield _gauge("queue_oldest_seconds", "how long the one that waits longest has waited", waited)
    yield _gauge("workers", "workers heard of in the last half minute", figures.workers)
    yield _gauge("workers_busy", "those of them that run a study", figures.busy)


def _of_records(counted: Mapping[str, Mapping[str, int]]) -> Metric:
    records = GaugeMetricFamily("bln_search_records", "records in the ledger", labels=("record", "state"))
    for record, states in counted.items():
        for state, count in states.items():
            records.add_metric((record, state), count)
    return records


def disk_with_least_room(settings: Settings) -> tuple[int, int] | None:
    """Size and free bytes of the disk of HOME, checkpoints or database, whichever has least; None where unknown."""
    try:
        return min((Folder(folder).disk() for folder in settings.folders), key=lambda disk: disk[1])
    except OSError:
        return None


def checkpoints_held(settings: Settings) -> tuple[int, int] | None:
    """How many files of trained networks there are, and their bytes; None for a bucket: listing one takes too long."""
    store = settings.checkpoint_store
    if not isinstance(store, Folder):
        return None
    try:
        sizes = [file.size for file in store.files() if not file.name.startswith(".") and not is_mark(file.name)]
    except OSError:
        return None
    return len(sizes), sum(sizes)
