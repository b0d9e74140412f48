"""Versions that results on a GPU depend on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from bln_search.execution.gpu import describe_gpu, find_driver_version

CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 9\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder@U16)  Fri Aug 16\n"
)


@pytest.mark.parametrize(
    ("content", "version"), [(CLOSED, "535.104.05"), (OPEN, "560.35.03"), ("nothing known\n", None), (None, None)]
)
def test_version_of_the_driver(tmp_path, content, version):
    file = tmp_path / "version"
    if content is not None:
        file.write_text(content)
    assert find_driver_version(file) == version


def test_gpu_is_described_and_other_devices_are_not(monkeypatch):
    properties = SimpleNamespace(major=9, minor=0, uuid="8932f937-d72c")
    monkeypatch.setattr(torch.cuda, "get_device_properties", {"cuda:1": properties}.get)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    described = describe_gpu("cuda:1")
    assert {name: described[name] for name in ("cuda", "cudnn", "capability", "gpu_uuid")} == {
        "cuda": "13.0",
        "cudnn": 91002,
        "capability": "9.0",
        "gpu_uuid": "8932f937-d72c",
    }
    assert describe_gpu("cpu") == {}
