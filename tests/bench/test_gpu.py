"""`make gpu`: its parts end within ten minutes, and one that fails or hangs does not stop the others."""

from __future__ import annotations

import sys

from bench.gpu import Part, list_parts, run_part


def test_all_parts_end_within_ten_minutes():
    parts = list_parts("cuda", save=True)
    assert sum(part.seconds for part in parts) <= 600
    saved = [part.name for part in parts if "--save" in part.command]
    assert saved == ["training_step", "fused_training", "enumerate", "per_layer"]


def test_a_part_reports_how_it_ended():
    commands = {
        "passed": "pass",
        "exit status 3": "raise SystemExit(3)",
        "stopped after 2 s": "import time; time.sleep(60)",
    }
    for end, code in commands.items():
        assert run_part(Part("x", (sys.executable, "-c", code), 2))["end"] == end
