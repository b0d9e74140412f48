"""Prometheus metrics of the database and the disk, read when Prometheus scrapes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import BlnSearchError
from bln_search.core.files.disk import measure_disk_usage
from bln_search.settings import Settings
from bln_search.storage.checkpoints.ownership import is_marker
from bln_search.storage.monitoring import LedgerMetrics, LedgerMonitor
from service.caching.ttl_cache import ExpiringCachedValue, T

_log = logging.getLogger(__name__)
_DATABASE_TTL = 5.0
"""Seconds. The endpoint needs no token, so database and disk must not be read for every request."""

_COUNT_TTL = 30.0
"""Seconds, for counts over all records or files, because they take long."""


class LedgerCollector(Collector):
    """Metrics of the database and the disk. A value that cannot be read is omitted, so that none is outdated."""

    def __init__(self, monitoring: LedgerMonitor, settings: Settings) -> None:
        self._ledger = ExpiringCachedValue(
            lambda: _read_ledger_or_none(monitoring.measure_ledger_metrics), _DATABASE_TTL, max_stale=6 * _DATABASE_TTL
        )
        self._records = ExpiringCachedValue(
            lambda: _read_ledger_or_none(monitoring.count_records_by_kind_and_state), _COUNT_TTL
        )
        self._disk = ExpiringCachedValue(lambda: find_usage_of_disk_with_least_free_space(settings), _DATABASE_TTL)
        self._files = ExpiringCachedValue(lambda: count_checkpoint_files_and_bytes(settings), _COUNT_TTL)

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, so that registering this collector reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        measured, records = self._ledger(), self._records()
        yield _make_gauge("database_up", "whether the database can be read", measured is not None)
        if measured is not None:
            yield from _iter_ledger_gauges(measured)
        if records is not None:
            yield _make_records_gauge(records)
        disk = self._disk()
        if disk is not None:
            yield _make_gauge(
                "disk_bytes", "size of the disk of home, checkpoints or database, whichever has least room", disk[0]
            )
            yield _make_gauge("disk_free_bytes", "bytes that are free there", disk[1])
        usage = self._files()
        if usage is not None:
            yield _make_gauge("checkpoint_files", "files of trained networks", usage[0])
            yield _make_gauge("checkpoint_bytes", "bytes of these files", usage[1])


def _make_gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(f"bln_search_{name}", description, value=float(value))


def _read_ledger_or_none(read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if the database cannot be read."""
    try:
        return read()
    except (BlnSearchError, SQLAlchemyError) as error:
        _log.warning("the database cannot be read, its metrics are omitted: %s", error)
        return None


def _iter_ledger_gauges(measured: LedgerMetrics) -> Iterator[Metric]:
    yield _make_gauge("database_bytes", "size of the database", measured.size)
    yield _make_gauge("queue_studies", "studies that wait for a worker", measured.waiting)
    yield _make_gauge(
        "queue_oldest_seconds",
        "how long the one that waits longest has waited",
        _seconds_since(measured.oldest_waiting, measured.at),
    )
    yield _make_gauge("workers", "workers with a heartbeat within 30 s", measured.workers)
    yield _make_gauge("workers_busy", "those of them that run a study", measured.busy)
    undelivered = _seconds_since(measured.oldest_undelivered, measured.at)
    yield _make_gauge(
        "webhook_oldest_seconds", "time since the end of the study whose message waits longest", undelivered
    )


def _seconds_since(begin: datetime | None, now: datetime) -> float:
    """Seconds from `begin` to `now`; 0 for None."""
    return 0.0 if begin is None else max(0.0, (now - begin).total_seconds())


def _make_records_gauge(counts: Mapping[str, Mapping[str, int]]) -> Metric:
    metric = GaugeMetricFamily("bln_search_records", "records in the ledger", labels=("record", "state"))
    for record, states in counts.items():
        for state, count in states.items():
            metric.add_metric((record, state), count)
    return metric


def find_usage_of_disk_with_least_free_space(settings: Settings) -> tuple[int, int] | None:
    """Return size and free bytes of the disk with the least free space among home, checkpoints and database.

    None if a disk cannot be read.
    """
    try:
        return min((measure_disk_usage(folder) for folder in settings.output_folders), key=lambda usage: usage.free)
    except OSError:
        return None


def count_checkpoint_files_and_bytes(settings: Settings) -> tuple[int, int] | None:
    """Return the number of checkpoint files and their bytes; None for a bucket, which takes too long to list."""
    store = settings.checkpoint_store
    if not isinstance(store, FolderStore):
        return None
    try:
        sizes = [file.size for file in store.iter_files() if not file.name.startswith(".") and not is_marker(file.name)]
    except OSError:
        return None
    return len(sizes), sum(sizes)
