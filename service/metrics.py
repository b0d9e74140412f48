"""Figures for monitoring, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bln_search.core.version import VERSION


class Metrics:
    """The figures of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("bln_search_requests", "requests answered", labels, registry=self.registry)
        self.seconds = Histogram(
            "bln_search_request_seconds", "seconds until a request was answered", ("route",), registry=self.registry
        )
        self.records = Gauge("bln_search_records", "records in the ledger", ("record", "state"), registry=self.registry)
        self.workers = Gauge("bln_search_workers", "workers that are there", registry=self.registry)
        Gauge("bln_search_version", "this version", ("version",), registry=self.registry).labels(VERSION).set(1)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. route: its template, so that numbers in paths do not become labels."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def written(self, counts: Mapping[str, Mapping[str, int]], workers: int) -> bytes:
        """Everything, with the ledger as it is now."""
        self.records.clear()
        for record, states in counts.items():
            for state, count in states.items():
                self.records.labels(record, state).set(count)
        self.workers.set(workers)
        return generate_latest(self.registry)
