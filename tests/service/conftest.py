"""A service with two users, and studies with results."""

from __future__ import annotations

from copy import copy
from functools import cache

import numpy as np
import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import State

from bln_search.core.configuration import Method, all_configurations
from bln_search.core.enums import PopulationEstimate, Scope, Split
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, EvaluationKey, Outcomes
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_ledger
from service.app import make_app, make_context
from service.middleware import RequestMiddleware

STUDIES = "/api/v1/studies"
HTML_HEADERS = {"Accept": "text/html"}
"""Headers of a browser that requests a page."""


def study(name="study", seeds=(0, 1), arms="[{method: bln}]", epochs=2):
    return parse_study(
        f"name: {name}\ntitle: A study\ndata: {{name: digits}}\nmodel: {{name: mlp, widths: [8]}}\narms: {arms}\n"
        f"seeds: {list(seeds)}\ntraining: {{epochs: {epochs}, batch_size: 25}}\n"
    )


def body(name="study", **more):
    """A study as JSON."""
    return {
        "name": name,
        "data": {"name": "digits"},
        "model": {"name": "mlp", "widths": [8]},
        "arms": [{"method": "bln"}],
        "seeds": [0, 1],
        **more,
    }


def evaluations(seed, batch_size=25):
    rng = np.random.default_rng(seed)
    made = []
    for configuration in all_configurations(Method.BLN):
        estimate = PopulationEstimate.FROZEN if configuration.uses_population else None
        for split in (Split.VALIDATION, Split.TEST):
            key = EvaluationKey(configuration, estimate, batch_size, split)
            if str(configuration) == "TTTT":
                made.append(Evaluation.undefined(key, "Std_B: it has no value"))
                continue
            outcomes = Outcomes(rng.random(9).astype(np.float32), rng.random(9) < 0.5)
            made.append(Evaluation.from_outcomes(key, outcomes))
    return tuple(made)


def finish_trial(ledger, trial, worker="host/1/0"):
    """As a worker would write it down."""
    token = ledger.attempts.claim_trial(trial.id, worker)
    epochs = [EpochRecord(epoch, 0.5, 0.6, 0.7 - epoch / 10, 0.8, 0.01) for epoch in (1, 2)]
    ledger.attempts.record_epochs(token, epochs)
    digest = f"{trial.id:064x}"
    ledger.attempts.record_checkpoint(
        token, CheckpointRecord(f"{digest[-32:]}.safetensors", digest, 2, "FFFF", 0.5, {"seed": 0})
    )
    ledger.attempts.finish_trial(token, evaluations(trial.spec.seed))


@cache
def application():
    """The application without a context: its routes are built once in a process, which takes a tenth of a second."""
    return make_app(None)


def application_of(context):
    """The same for a context, as `make_app` would make it; to be changed by nobody, as it shares its routes."""
    app = copy(application())
    app.state, app.user_middleware, app.middleware_stack = State({"context": context}), [], None
    app.add_middleware(RequestMiddleware, context=context)
    return app


class World:
    """The service and who uses it."""

    def __init__(self, home, database=None):
        self.home = home
        self.settings = Settings(home=home, hosts=("testserver",), free_bytes=0, database=database)
        self.ledger = open_ledger(self.settings.database_url)
        self.queue = self.ledger.queue
        self.context = make_context(self.settings, self.ledger)
        self.app = application_of(self.context)
        self.secrets = {
            (account, scope): self.ledger.tokens.create(account, scope)[0]
            for account, scope in (
                ("ada", Scope.READ),
                ("ada", Scope.WRITE),
                ("bob", Scope.READ),
                ("bob", Scope.WRITE),
                ("root", Scope.ADMIN),
            )
        }
        self.clients = []

    def client(self, account="ada", scope=Scope.WRITE, **more):
        """Somebody's requests."""
        headers = {} if account is None else {"Authorization": f"Bearer {self.secrets[account, scope]}"}
        made = TestClient(self.app, headers={**headers, **more}, raise_server_exceptions=False)
        self.clients.append(made)
        return made

    def complete(self, name="done", account="ada", **how):
        """A study with all its results."""
        study_id = self.queue.submit(study(name, **how), account).study_id
        self.ledger.studies.start(study_id, lambda _: True, "host/1/0")
        for trial in self.ledger.trials.list_open(study_id):
            finish_trial(self.ledger, trial)
        self.ledger.studies.finish(study_id, runner="host/1/0")
        return study_id

    def close(self):
        for client in self.clients:
            client.close()
        self.ledger.close()


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "service")
    yield made
    made.close()


@pytest.fixture
def client(world):
    """Ada, who may change things."""
    return world.client()
