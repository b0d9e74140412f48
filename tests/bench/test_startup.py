"""The benchmark of starts: times of a process, and failed programs."""

from __future__ import annotations

import os

import pytest

from bench.startup import time_process


def test_a_start_has_wall_time_and_time_of_the_processor(tmp_path):
    waiting = time_process("import time; time.sleep(0.5)", tmp_path, {**os.environ})
    assert waiting.seconds > 0.5
    assert 0 < waiting.processor_seconds < waiting.seconds


def test_a_program_that_fails_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="exit"):
        time_process("raise SystemExit('exit')", tmp_path, {**os.environ})
