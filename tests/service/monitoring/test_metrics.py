"""Metrics for Prometheus: their names, values and limits."""

from __future__ import annotations

import re
from collections import namedtuple
from contextlib import closing

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import ProgrammingError

from bln_search.core.errors import LedgerError
from bln_search.settings import Settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.monitoring.ledger_collector import (
    count_checkpoint_files_and_bytes,
    find_usage_of_disk_with_least_free_space,
)
from tests.support.service_world import study


def read_metrics(client):
    """Every sample by name and labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_metric_families_follow_the_naming_rules_of_prometheus(client):
    client.get("/healthz")
    for family in text_string_to_metric_families(client.get("/metrics").text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert re.fullmatch(r"(bln_search|process)_[a-z]+(_[a-z]+)*", family.name)
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|megabytes|percent)$", family.name)
        if family.type == "gauge":
            assert not family.name.endswith("_total")
        if family.type == "counter":
            assert {sample.name for sample in family.samples} == {f"{family.name}_total"}


def test_metrics_without_a_study_are_zero(client):
    metrics = read_metrics(client)
    records = {key: value for key, value in metrics.items() if key[0] == "bln_search_records"}
    assert len(records) == 29
    assert set(records.values()) == {0}
    assert metrics["bln_search_database_up",] == 1
    assert metrics["bln_search_queue_oldest_seconds",] == 0
    assert metrics["bln_search_webhook_oldest_seconds",] == 0
    assert metrics["bln_search_database_bytes",] > 10_000
    assert metrics["process_resident_memory_bytes",] > 1_000_000


def test_results_and_waiting_studies_are_counted(world, client):
    world.complete()
    world.ledger.queue.submit_study(study("waits"), "ada")
    metrics = read_metrics(client)
    assert metrics["bln_search_records", ("record", "trial"), ("state", "finished")] == 2
    assert metrics["bln_search_records", ("record", "evaluation"), ("state", "measured")] == 60
    assert metrics["bln_search_queue_studies",] == 1
    assert 0 <= metrics["bln_search_queue_oldest_seconds",] < 60


def test_messages_of_the_webhook_that_wait_are_counted(world, client):
    world.ledger.deliveries.start_announcing()
    world.queue.cancel(world.queue.submit_study(study("cancelled"), "ada").study_id)
    metrics = read_metrics(client)
    assert metrics["bln_search_records", ("record", "delivery"), ("state", "waiting")] == 1
    assert 0 < metrics["bln_search_webhook_oldest_seconds",] < 60


def test_metrics_contain_no_private_text(world, client):
    study_id = world.complete("a_name_of_a_study")
    client.get(f"/api/v1/studies/{study_id}")
    client.get("/api/v1/studies?name=a_name_of_a_study")
    text = client.get("/metrics").text
    for private_text in ("a_name_of_a_study", "ada", "host/1/0", str(world.home)):
        assert private_text not in text


def test_unknown_paths_and_methods_are_not_metric_labels(client):
    for number in range(20):
        client.get(f"/api/v1/studies/{number}")
        client.get(f"/studies/{number}")
        client.get(f"/nowhere/{number}")
        client.get(f"/static/{number}.js")
        client.request(f"METHOD{number}", "/healthz")
    labels = {key[1:] for key in read_metrics(client) if key[0] == "bln_search_requests_total"}
    assert {dict(label)["method"] for label in labels} == {"GET", "other"}
    assert {(dict(label)["route"], dict(label)["status"]) for label in labels} == {
        ("/api/v1/studies/{study_id:number}", "404"),
        ("/studies/{study_id:number}", "404"),
        ("/static", "404"),
        ("/healthz", "405"),
        ("unknown", "404"),
    }


def test_metrics_without_a_database_keep_the_other_figures(world, client, monkeypatch):
    def fail(*_):
        raise LedgerError("it is away")

    monkeypatch.setattr(world.ledger.monitoring, "measure_ledger_metrics", fail)
    monkeypatch.setattr(world.ledger.monitoring, "count_records_by_kind_and_state", fail)
    metrics = read_metrics(client)
    assert metrics["bln_search_database_up",] == 0
    assert not [
        key for key in metrics if key[0] in ("bln_search_records", "bln_search_workers", "bln_search_queue_studies")
    ]
    assert ("bln_search_disk_free_bytes",) in metrics


def test_concurrent_scrapes_read_the_ledger_once(world, client, monkeypatch):
    reads = []
    monkeypatch.setattr(world.ledger.monitoring, "count_records_by_kind_and_state", lambda: reads.append(True) or {})
    for _ in range(5):
        read_metrics(client)
    assert len(reads) == 1


def test_database_error_is_reported_as_a_metric(world, client, monkeypatch):
    def broken(*_arguments):
        raise ProgrammingError("SELECT", {}, Exception("no such column"))

    monkeypatch.setattr(world.ledger.monitoring, "measure_ledger_metrics", broken)
    assert read_metrics(client)["bln_search_database_up",] == 0


class TestDiskUsage:
    def test_only_checkpoint_files_are_counted(self, tmp_path):
        settings = Settings(home=tmp_path)
        assert count_checkpoint_files_and_bytes(settings) == (0, 0)
        settings.checkpoint_store.write("one.safetensors", b"12345")
        (tmp_path / "checkpoints" / ".two.safetensors-unfinished").write_bytes(b"123")
        with closing(open_and_upgrade_ledger(settings.database_url)) as ledger:
            ledger.checkpoints.claim_store(settings.checkpoint_store)
        assert count_checkpoint_files_and_bytes(settings) == (1, 5)

    def test_usage_of_a_bucket_is_not_measured(self, tmp_path):
        """Its own service tells how much it holds, and it may be slow or away."""
        settings = Settings(home=tmp_path, checkpoints="s3://nowhere/at/all")
        assert count_checkpoint_files_and_bytes(settings) is None
        size, _ = find_usage_of_disk_with_least_free_space(
            settings
        )  # how much is free may be another figure a moment later
        assert size == find_usage_of_disk_with_least_free_space(Settings(home=tmp_path))[0]

    def test_smallest_free_space_counts_even_of_missing_folders(self, tmp_path, monkeypatch):
        rooms = {tmp_path: (1000, 700, 300), tmp_path / "other": (5000, 4800, 200)}
        (tmp_path / "other").mkdir()
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr("bln_search.core.files.disk.shutil.disk_usage", lambda path: usage(*rooms[path]))
        assert find_usage_of_disk_with_least_free_space(Settings(home=tmp_path / "not" / "yet")) == (1000, 300)
        settings = Settings(home=tmp_path, checkpoints=str(tmp_path / "other" / "kept"))
        assert find_usage_of_disk_with_least_free_space(settings) == (5000, 200)
