"""Figures for monitoring, in the format of Prometheus. docs/monitoring.md lists every one."""

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

# When a counter began is one series more for each, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The figures of one application: its requests, its process, and what `standing` reads when somebody asks."""

    def __init__(self, standing: Collector) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("bln_search_requests", "requests answered", labels, registry=self.registry)
        self.seconds = Histogram(
            "bln_search_request_seconds", "seconds until a request was answered", ("route",), registry=self.registry
        )
        Info("bln_search_build", "this version", registry=self.registry).info({"version": VERSION})
        ProcessCollector(registry=self.registry)
        self.registry.register(standing)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. route: its template, so that numbers in paths do not become labels."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def written(self) -> bytes:
        """Everything as it is now."""
        return generate_latest(self.registry)
