"""Prometheus metrics of the database and the disk, read when Prometheus scrapes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core.checkpoints import Folder
from bln_search.core.disk import disk_usage
from bln_search.core.errors import BlnSearchError
from bln_search.settings import Settings
from bln_search.storage.checkpoints.ownership import is_ownership_marker
from bln_search.storage.monitoring import LedgerMetrics, Monitoring
from service.caching.ttl_cache import T, TtlCache

_log = logging.getLogger(__name__)
_TTL = 5.0
"""Seconds. The endpoint needs no token, so database and disk must not be read for every request."""

_COUNT_TTL = 30.0
"""Seconds, for counts over all records or files, of which there may be very many."""


class LedgerCollector(Collector):
    """Metrics of the database and the disk. A value that cannot be read is omitted, so that none is outdated."""

    def __init__(self, monitoring: Monitoring, settings: Settings) -> None:
        self._ledger = TtlCache(lambda: _read(monitoring.measure), _TTL, max_stale=6 * _TTL)
        self._records = TtlCache(lambda: _read(monitoring.count_records), _COUNT_TTL)
        self._disk = TtlCache(lambda: fullest_disk(settings), _TTL)
        self._files = TtlCache(lambda: checkpoint_usage(settings), _COUNT_TTL)

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, so that registering this collector reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        figures, records = self._ledger(), self._records()
        yield _gauge("database_up", "whether the database can be read", figures is not None)
        if figures is not None:
            yield from _ledger_metrics(figures)
        if records is not None:
            yield _record_metric(records)
        disk = self._disk()
        if disk is not None:
            yield _gauge(
                "disk_bytes", "size of the disk of home, checkpoints or database, whichever has least room", disk[0]
            )
            yield _gauge("disk_free_bytes", "bytes that are free there", disk[1])
        usage = self._files()
        if usage is not None:
            yield _gauge("checkpoint_files", "files of trained networks", usage[0])
            yield _gauge("checkpoint_bytes", "bytes of these files", usage[1])


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"bln_search_{name}", text, value=float(value))


def _read(read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if the database cannot be read."""
    try:
        return read()
    except (BlnSearchError, SQLAlchemyError) as error:
        _log.warning("the database cannot be read, its metrics are omitted: %s", error)
        return None


def _ledger_metrics(figures: LedgerMetrics) -> Iterator[Metric]:
    since = figures.oldest_waiting
    waited = 0.0 if since is None else max(0.0, (figures.at - since).total_seconds())
    yield _gauge("database_bytes", "size of the database", figures.size)
    yield _gauge("queue_studies", "studies that wait for a worker", figures.waiting)
    yield _gauge("queue_oldest_seconds", "how long the one that waits longest has waited", waited)
    yield _gauge("workers", "workers with a heartbeat within 30 s", figures.workers)
    yield _gauge("workers_busy", "those of them that run a study", figures.busy)


def _record_metric(counts: Mapping[str, Mapping[str, int]]) -> Metric:
    metric = GaugeMetricFamily("bln_search_records", "records in the ledger", labels=("record", "state"))
    for record, states in counts.items():
        for state, count in states.items():
            metric.add_metric((record, state), count)
    return metric


def fullest_disk(settings: Settings) -> tuple[int, int] | None:
    """Return size and free bytes of the disk with the least free space among home, checkpoints and database.

    None if a disk cannot be read.
    """
    try:
        return min((disk_usage(folder) for folder in settings.folders), key=lambda usage: usage.free)
    except OSError:
        return None


def checkpoint_usage(settings: Settings) -> tuple[int, int] | None:
    """Return the number of checkpoint files and their bytes; None for a bucket, which takes too long to list."""
    store = settings.checkpoint_store
    if not isinstance(store, Folder):
        return None
    try:
        sizes = [
            file.size for file in store.files() if not file.name.startswith(".") and not is_ownership_marker(file.name)
        ]
    except OSError:
        return None
    return len(sizes), sum(sizes)
