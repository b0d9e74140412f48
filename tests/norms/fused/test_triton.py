"""The Triton kernels equal those of torch in Triton's interpreter, and compile for GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bln_search.norms.fused.operators import is_triton_installed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_triton_installed(), reason="Triton is not installed: make test-slow installs it"),
]
MAX_ERROR_OF_TORCH = 1e-4


def run_module(name, **environment):
    command = [sys.executable, "-W", "error", "-m", f"tests.norms.fused.{name}"]
    result = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_kernels_in_the_interpreter_equal_those_of_torch():
    errors = run_module("interpreted", TRITON_INTERPRET="1")
    assert len(errors) == 96
    too_large = [error for error in errors if not error["triton"] < 2 * error["torch"] + 2e-6]
    assert too_large == []
    assert max(error["torch"] for error in errors) < MAX_ERROR_OF_TORCH


def test_every_variant_compiles_for_gpus(tmp_path):
    sizes = run_module("compiled", TRITON_CACHE_DIR=str(tmp_path), TRITON_INTERPRET="0")
    assert len(sizes) == 16
    assert min(sizes.values()) > 1000
