"""Limits and secrets of the compose files; `smoke.py` runs them with a Docker engine."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.conftest import ROOT

GPU_FILES = ("compose.gpu.yml", "compose.cluster.gpu.yml")
FILES = ("docker-compose.yml", "compose.cluster.yml", "compose.bucket.yml", "compose.webhook.yml", *GPU_FILES)
SERVICES = {
    (file, name): service
    for file in FILES
    for name, service in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"].items()
}
WHOLE = {key: service for key, service in SERVICES.items() if "image" in service and key[0] not in GPU_FILES}


@pytest.mark.parametrize("key", WHOLE, ids=" ".join)
def test_every_container_has_limits_and_no_privileges(key):
    service = WHOLE[key]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "memory" in service["deploy"]["resources"]["limits"]
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}
    assert "restart" in service


def test_only_the_web_port_is_published_on_loopback_and_others_are_on_the_internal_network():
    ports = {key: service["ports"] for key, service in SERVICES.items() if "ports" in service}
    assert ports == {("docker-compose.yml", "web"): ["${LISTEN:-127.0.0.1}:${PORT:-8000}:8000"]}
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert composed["networks"]["inside"] == {"internal": True}
    outside = {key for key, service in SERVICES.items() if service.get("networks", ["inside"]) != ["inside"]}
    bucket = {("compose.bucket.yml", name) for name in ("web", "worker")}  # which lies outside
    assert outside == {("docker-compose.yml", "web"), *bucket}


@pytest.mark.parametrize("file", FILES)
def test_secrets_are_files_without_a_default_and_variables_are_documented(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    pattern = r"\$\{[A-Z_]+:\?write .+ into a file and set .+ to its path, see docs/deploy.md\}"
    assert all(re.fullmatch(pattern, secret["file"]) for secret in yaml.safe_load(text).get("secrets", {}).values())
    explained = re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"\$\{([A-Z_]+)", text)) <= set(explained)


@pytest.mark.parametrize("file", GPU_FILES)
def test_exactly_one_container_sees_all_gpus_and_the_worker_uses_them(file):
    """One Ray node: a second one would offer the same GPUs again."""
    with_gpus = {
        name: service["deploy"]["resources"]["reservations"]["devices"]
        for (of_file, name), service in SERVICES.items()
        if of_file == file and "deploy" in service
    }
    assert list(with_gpus.values()) == [[{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]]
    if "ray-node" in with_gpus:
        assert SERVICES[file, "ray-node"]["deploy"]["replicas"] == 1
    environment = SERVICES[file, "worker"]["environment"]
    assert environment["BLN_SEARCH_DEVICE"] in ("cuda", "${DEVICE:-cuda}")
    assert SERVICES[file, "worker"]["image"].endswith("-cuda")
