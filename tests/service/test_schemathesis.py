"""The running service against its own description, by schemathesis with all its checks.

BLN_SEARCH_EXAMPLES and BLN_SEARCH_EXAMPLE_SEEDS ask for more: 200 and 1,2,3 before a release.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import update

from bln_search.storage.engine import write_session
from bln_search.storage.tables import StudyRow, TokenRow
from tests.end_to_end.service import Service
from tests.support.service_world import World

EXAMPLES = os.environ.get("BLN_SEARCH_EXAMPLES", "10")
SEEDS = os.environ.get("BLN_SEARCH_EXAMPLE_SEEDS", "1").split(",")
CONFIGURATION = """
# No schema can say which names are registered, which keys go together, or which revision a study has.
[[operations]]
include-path-regex = "/studies(/validate)?$"
include-method = "POST"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]

[[operations]]
include-method = "PATCH"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "412", "429"]

# No schema can say which conditions a study has, by which its rows are sorted.
[[operations]]
include-path-regex = "/leaderboard$"
include-method = "GET"
checks.positive_data_acceptance.expected-statuses = ["2xx", "304", "401", "403", "404", "409", "422", "429"]

# What violates a schema may be so long that nothing looks at it.
[checks]
negative_data_rejection.expected-statuses = ["4xx"]
"""
OWN_TOKEN = 987_654_321
WORKER = "far/1/0"
HOOKS = f"""
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    # It finds its own token in the list, ends it, and would be let in nowhere from then on.
    if case.path_parameters and str(case.path_parameters.get("token_id")) == "{OWN_TOKEN}":
        case.path_parameters["token_id"] = 1
    if case.path.endswith("/tokens/revoke") and isinstance(case.body, dict) and case.body.get("account") == "ada":
        case.body["account"] = "nobody"
"""
# The number of a study that is there replaces the parameter that should violate the schema: the request is valid.
EXCLUDED = {"a study that is there": ("--exclude-checks", "negative_data_rejection"), "any number": ()}
PHASES = "examples,coverage,fuzzing,stateful" if "BLN_SEARCH_EXAMPLES" in os.environ else "fuzzing,stateful"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with a study that has results and runs, so that it can be asked anything and not be deleted."""
    home = tmp_path_factory.mktemp("schemathesis") / "home"
    world = World(home)
    study_id = world.complete()
    with write_session(world.ledger.database.engine) as session:
        session.execute(update(StudyRow).where(StudyRow.id == study_id).values(state="running", runner=WORKER))
        session.execute(
            update(TokenRow).where(TokenRow.account == "ada", TokenRow.scope == "write").values(id=OWN_TOKEN)
        )
    secret = world.secrets["ada", "write"]
    quiet = {
        "BLN_SEARCH_FREE_BYTES": "0",
        "BLN_SEARCH_REQUESTS_A_MINUTE": "1000000000",
        "BLN_SEARCH_MOST_STUDIES": "100000",
    }
    with send_heartbeats(world.ledger, study_id):
        service = Service(home, "--no-worker", **quiet).start()
        yield service, secret, study_id
        service.stop()
    world.close()


@contextmanager
def send_heartbeats(ledger, study_id):
    """Let a worker be alive that runs the study."""
    ended = threading.Event()

    def send():
        while True:
            ledger.workers.record_heartbeat(WORKER, "cpu", "0")
            ledger.attempts.record_heartbeats([], study_id, WORKER)
            if ended.wait(10):
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("study", "seed", "examples"),
    [(study, seed, EXAMPLES) for study in ("a study that is there", "any number") for seed in SEEDS],
)
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_service_conforms_to_its_openapi_description(running, tmp_path, study, seed, examples):
    service, secret, study_id = running
    fixed = f"[parameters]\nstudy_id = {study_id}\n" if study == "a study that is there" else ""
    (tmp_path / "schemathesis.toml").write_text(fixed + CONFIGURATION)
    (tmp_path / "own_token.py").write_text(HOOKS)
    program = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    process = subprocess.run(
        [
            *(sys.executable, "-c", program, "--config-file", str(tmp_path / "schemathesis.toml")),
            *("run", f"{service.address}/api/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {secret}", "--checks", "all", *EXCLUDED[study]),
            *("--max-examples", examples, "--seed", seed, "--phases", PHASES, "--no-color"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "own_token", "PYTHONPATH": str(tmp_path)},
    )
    report = process.stdout + process.stderr
    assert process.returncode == 0, report[-8000:]
    assert "Authentication failed" not in report, report[-3000:]
