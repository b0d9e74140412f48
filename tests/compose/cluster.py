"""A study of 32 trials on the composed Ray cluster, undisturbed, with a node killed midway, and with the head killed.

    python3 tests/compose/cluster.py -f docker-compose.yml -f compose.cluster.yml -p check

The three ranked tables must be the same. Needs nothing but Python and docker, and to be root: processes are killed from
outside their containers. Ends with the line `cluster: ok`, or with an exit code other than 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.compose.smoke import READ_STUDY, Stack, inspect, submit, wait_for_table, wait_until

_TRIALS = 32


def kill(stack: Stack, service: str) -> None:
    """SIGKILL to the first process of a service's first container; its restart policy brings it back."""
    name = stack.compose("ps", "--quiet", service).split()[0]
    os.kill(inspect(name)["Pid"], signal.SIGKILL)


def progress(stack: Stack, study_id: int) -> dict[str, int]:
    """Its trials: how many there are, have ended, and have failed."""
    study = stack.request_json("GET", f"/api/v1/studies/{study_id}") or {}
    return study.get("progress", {"trials": 0, "ended": 0, "failed": 0})


def run_to_completion(
    stack: Stack, study: dict[str, Any], label: str, disturb: Callable[[], None] | None
) -> list[dict[str, Any]]:
    """The ranked rows of the study; `disturb` is called when a quarter of its trials is finished."""
    start = time.monotonic()
    number = submit(stack, {**study, "name": f"cluster_{label}"})
    if disturb is not None:
        wait_until(lambda: progress(stack, number)["ended"] >= _TRIALS // 4, "a quarter finished")
        disturb()
        assert stack.state(number) != "complete", "it was over before anything was killed"
    rows = wait_for_table(stack, number)
    counts = progress(stack, number)
    assert (counts["trials"], counts["ended"], counts["failed"]) == (_TRIALS, _TRIALS, 0), counts
    print(f"cluster: {_TRIALS} trials, {label}, complete after {time.monotonic() - start:.0f} s", flush=True)
    return rows


def main() -> None:
    """Every step of it."""
    stack = Stack(sys.argv[1:])
    wait_until(stack.ready, "ready")
    stack.token = stack.compose("exec", "-T", "web", "bln-search", "token", "create", "--account", "smoke").strip()
    study = {
        **json.loads(stack.compose("exec", "-T", "web", "python", "-c", READ_STUDY)),
        "seeds": list(range(_TRIALS)),
    }
    undisturbed = run_to_completion(stack, study, "undisturbed", None)
    for service in ("ray-node", "ray-head"):
        rows = run_to_completion(stack, study, f"{service}_killed", lambda name=service: kill(stack, name))
        assert rows == undisturbed, f"another table where {service} was killed"
    print("cluster: ok")


if __name__ == "__main__":
    main()
