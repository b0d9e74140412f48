"""Sends the quickstart study to a running stack, kills its services, and compares the table every time.

    python3 tests/compose/smoke.py -p check       # the arguments after it go to `docker compose`

Needs nothing but Python and docker. Ends with the line `smoke: ok`, or with an exit code other than 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

READ_STUDY = (
    "import json, sys, yaml; print(json.dumps(yaml.safe_load(open('/opt/bln-search/studies/quickstart.yaml'))))"
)

_KILL_WORKER = """
import os, signal
for process in filter(str.isdigit, os.listdir("/proc")):
    arguments = open(f"/proc/{process}/cmdline").read().split("\\0")
    if "worker" in arguments and any(word.endswith("/bln-search") for word in arguments) and process != "1":
        os.kill(int(process), signal.SIGKILL)
        break
else:
    raise SystemExit("no worker found")
"""
_KILL_DATABASE = 'kill -9 "$(head -n 1 "$PGDATA/postmaster.pid")"'
_PATIENCE = 900.0


class Stack:
    """A running stack; `options` are those of `docker compose` that select it."""

    def __init__(self, options: list[str]) -> None:
        self.options = options
        address = self.compose("port", "web", "8000").strip()
        self.address = f"http://127.0.0.1:{address.rpartition(':')[2]}"
        self.token = ""

    def compose(self, *arguments: str) -> str:
        """What a call of `docker compose` prints."""
        process = subprocess.run(["docker", "compose", *self.options, *arguments], capture_output=True, text=True)
        assert process.returncode == 0, f"docker compose {' '.join(arguments)}: {process.stderr}"
        return process.stdout

    def request_json(self, method: str, path: str, body: Any = None) -> Any:
        """The response as JSON; None while the service or its database is unavailable."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            self.address + path, None if body is None else json.dumps(body).encode(), headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            assert error.code >= 500, f"{method} {path}: {error.code} {error.read().decode()}"
        except OSError:
            pass
        return None

    def ready(self) -> bool:
        """Is the database reachable and a worker alive?"""
        return (self.request_json("GET", "/readyz") or {}).get("ready", False)

    def state(self, study_id: int) -> str:
        """The state of a study."""
        return (self.request_json("GET", f"/api/v1/studies/{study_id}") or {}).get("state", "away")

    def trains(self, study_id: int) -> bool:
        """Has one of its epochs ended?"""
        events = (self.request_json("GET", f"/api/v1/studies/{study_id}/events") or {}).get("events", [])
        return any(event["kind"] == "epoch" for event in events)

    def table(self, study_id: int) -> list[dict[str, Any]]:
        """The ranked rows."""
        page = wait_until(
            lambda: self.request_json("GET", f"/api/v1/studies/{study_id}/leaderboard?limit=200"), "leaderboard"
        )
        assert page["next_cursor"] is None
        return page["rows"]

    def kill(self, service: str, *command: str) -> None:
        """SIGKILL to the main process of a service in its container; back when the container was started again."""
        name = self.compose("ps", "--quiet", service).split()[0]
        before = inspect(name)
        process = subprocess.run(["docker", "exec", *command[:2], name, *command[2:]], capture_output=True, text=True)
        assert process.returncode in (0, 137), process.stderr
        wait_until(lambda: inspect(name)["StartedAt"] != before["StartedAt"], f"{service} started again")
        wait_until(lambda: inspect(name)["Health"]["Status"] == "healthy", f"{service} healthy")
        wait_until(self.ready, "ready")
        print(f"smoke: {service} killed, started again, healthy", flush=True)


def inspect(container: str) -> dict[str, Any]:
    """The state of a container."""
    process = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
    return json.loads(process.stdout)[0]["State"]


def wait_until(condition: Callable[[], Any], event: str) -> Any:
    """Wait until the result of `condition` is true, and return it."""
    end = time.monotonic() + _PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end, f"not within {_PATIENCE:.0f} seconds: {event}"
        time.sleep(0.5)
    return result


def submit(stack: Stack, study: dict[str, Any]) -> int:
    """Send a study in; its number."""
    return wait_until(lambda: stack.request_json("POST", "/api/v1/studies", study), "study accepted")["id"]


def wait_for_table(stack: Stack, study_id: int) -> list[dict[str, Any]]:
    """The table of a study once it is complete."""
    wait_until(lambda: stack.state(study_id) in ("complete", "failed"), "study complete")
    assert stack.state(study_id) == "complete", stack.request_json("GET", f"/api/v1/studies/{study_id}")
    rows = stack.table(study_id)
    assert [row["rank"] for row in rows] == list(range(1, 17)), [row.get("rank") for row in rows]
    return rows


def main() -> None:
    """Every step of it."""
    stack = Stack(sys.argv[1:])
    kills = {
        "worker": ("--user", "10001", "python", "-c", _KILL_WORKER),
        "database": ("--user", "postgres", "sh", "-c", _KILL_DATABASE),
    }
    wait_until(stack.ready, "ready")
    stack.token = stack.compose("exec", "-T", "web", "bln-search", "token", "create", "--account", "smoke").strip()
    study = json.loads(stack.compose("exec", "-T", "web", "python", "-c", READ_STUDY))

    first = submit(stack, study)
    rows = wait_for_table(stack, first)
    print(f"smoke: quickstart complete, {len(rows)} ranked rows, first {rows[0]['configuration']}", flush=True)
    for service, command in kills.items():
        stack.kill(service, *command)
        assert stack.table(first) == rows, f"another table after {service} was killed"

    for service, command in kills.items():
        study_id = submit(stack, {**study, "name": f"quickstart_{service}"})
        wait_until(lambda study_id=study_id: stack.trains(study_id), "study in training")
        assert stack.state(study_id) == "running", "it was over before anything was killed"
        stack.kill(service, *command)
        assert wait_for_table(stack, study_id) == rows, f"another table where {service} was killed in the middle"
        print(f"smoke: the same table where {service} was killed in the middle", flush=True)
    print("smoke: ok")


if __name__ == "__main__":
    main()
