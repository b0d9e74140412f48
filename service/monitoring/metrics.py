"""Prometheus metrics. docs/monitoring.md lists all of them."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

from bln_search.core.version import VERSION

# Without this call every counter has a second series with its start time.
disable_created_metrics()  # type: ignore[no-untyped-call]


class ServiceMetrics:
    """Metrics of one application: its requests, its process, and those of `ledger_collector`."""

    def __init__(self, ledger_collector: Collector) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("bln_search_requests", "requests answered", labels, registry=self.registry)
        self.seconds = Histogram(
            "bln_search_request_seconds", "seconds until a request was answered", ("route",), registry=self.registry
        )
        Info("bln_search_build", "this version", registry=self.registry).info({"version": VERSION})
        ProcessCollector(registry=self.registry)
        self.registry.register(ledger_collector)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. route: the path template, so that ids in paths do not become label values."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def render_prometheus_text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
