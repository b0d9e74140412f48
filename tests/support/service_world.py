"""A service with three accounts, and studies with results."""

from __future__ import annotations

import atexit
import sqlite3
import time
from contextlib import closing
from copy import copy
from functools import cache
from itertools import product
from pathlib import Path
from shutil import copyfile, rmtree
from tempfile import mkdtemp
from uuid import uuid4

import numpy as np
from fastapi.testclient import TestClient
from starlette.datastructures import State

from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import all_configurations
from bln_search.core.enums import PopulationEstimate, Scope
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.method import Method
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, EvaluationKey
from bln_search.settings import Settings
from bln_search.specs import list_planned_configurations_and_estimates, parse_study
from bln_search.specs.sections.evaluation import EVALUATED_SPLITS
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.app import make_app, make_app_context
from service.middleware import RequestMiddleware

STUDIES = "/api/v1/studies"
HTML_HEADERS = {"Accept": "text/html"}
"""Headers of a browser that requests a page."""

RUNNER = "host/1/0"
"""The worker that records results."""


def study(
    name="study",
    seeds=(0, 1),
    arms="[{method: bln}]",
    epochs=2,
    conditions="[]",
    batch_sizes="null",
    blends="[]",
    per_slot="false",
    splits="[]",
    stream="",
):
    return parse_study(
        f"name: {name}\ntitle: A study\ndata: {{name: digits}}\nmodel: {{name: mlp, widths: [8]}}\narms: {arms}\n"
        f"seeds: {list(seeds)}\ntraining: {{epochs: {epochs}, batch_size: 25}}\n"
        f"evaluation: {{conditions: {conditions}, batch_sizes: {batch_sizes}, blends: {blends}, "
        f"per_slot: {per_slot}, splits: {splits}}}\n{f'stream: {stream}' if stream else ''}\n"
    )


def body(name="study", **sections):
    """A study as JSON."""
    return {
        "name": name,
        "data": {"name": "digits"},
        "model": {"name": "mlp", "widths": [8]},
        "arms": [{"method": "bln"}],
        "seeds": [0, 1],
        **sections,
    }


BLN_ROWS = tuple(
    (configuration, PopulationEstimate.FROZEN if configuration.uses_population else None)
    for configuration in all_configurations(Method.BLN)
)


def make_evaluations(seed, batch_size=25, conditions=("",), rows=BLN_ROWS, clean_splits=EVALUATED_SPLITS):
    rng = np.random.default_rng(seed)
    evaluations = []
    for condition, (configuration, estimate) in product(conditions, rows):
        for split in EVALUATED_SPLITS if condition else clean_splits:
            key = EvaluationKey(configuration, estimate, batch_size, split, condition)
            if str(configuration) == "TTTT":
                evaluations.append(Evaluation.make_undefined(key, "Std_B: it has no value"))
                continue
            outcomes = ExampleOutcomes(rng.random(9).astype(np.float32), rng.random(9) < 0.5)
            evaluations.append(Evaluation.from_outcomes(key, outcomes))
    return tuple(evaluations)


def finish_trial(ledger, trial, worker=RUNNER, *, provenance=None, peak_memory=None):
    """Record the results of a trial as a worker does."""
    token = ledger.attempts.claim_trial(trial.id, worker)
    epochs = [EpochRecord(epoch, 0.5, 0.6, 0.7 - epoch / 10, 0.8, 0.01) for epoch in (1, 2)]
    ledger.attempts.record_epochs(token, epochs)
    digest = f"{trial.id:064x}"
    ledger.attempts.record_checkpoint(
        token, CheckpointRecord(f"{digest[-32:]}.safetensors", digest, 2, "FFFF", 0.5, provenance or {"seed": 0})
    )
    rows = (
        list_planned_configurations_and_estimates(trial.spec)
        if trial.spec.mixture_weights != MixtureWeights()
        else BLN_ROWS
    )
    evaluations = [
        evaluation
        for batch_size in trial.spec.inference_batch_sizes
        for evaluation in make_evaluations(
            trial.spec.seed, batch_size, trial.spec.all_condition_names, rows, trial.spec.evaluation.evaluated_splits
        )
    ]
    ledger.attempts.finish_trial(token, evaluations, peak_memory=peak_memory)


def start_study(ledger, name, account, **options):
    """Return the id of a running study of an account, and its trials, which wait."""
    study_id = ledger.queue.submit_study(study(name, **options), account).study_id
    ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    return study_id, ledger.trials.list_claimable_trials(study_id)


def complete_study(ledger, name, account, **options):
    """Return the id of a study with all its results."""
    study_id, trials = start_study(ledger, name, account, **options)
    for trial in trials:
        finish_trial(ledger, trial)
    ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id


@cache
def application():
    """Return the application without a context. Building its routes takes a tenth of a second."""
    return make_app(None)


def application_of(context):
    """Return the application for a context. Its routes are shared: do not change them."""
    app = copy(application())
    app.state, app.user_middleware, app.middleware_stack = State({"context": context}), [], None
    app.add_middleware(RequestMiddleware, context=context)
    return app


class ClientOfLists:
    """The lists of a service that commands read, each on one page: stands for `bln_search.client.Client`."""

    def __init__(self, world):
        self.world = world

    def trials(self, study_id):
        return self._items(f"{STUDIES}/{study_id}/trials")

    def evaluations(self, study_id, **filters):
        return self._items(f"{STUDIES}/{study_id}/evaluations", limit=200, **filters)

    def _items(self, path, **params):
        return self.world.client().get(path, params=params).json()["items"]


TOKENS = (
    ("ada", Scope.READ),
    ("ada", Scope.WRITE),
    ("bob", Scope.READ),
    ("bob", Scope.WRITE),
    ("root", Scope.ADMIN),
)


def read_all_pages(client, path, **params):
    """Every item of a list of the API, page by page."""
    items = []
    while True:
        response = client.get(path, params=params)
        assert response.status_code == 200, response.text
        page = response.json()
        items += page["items"] if "items" in page else page["rows"]
        if page["next_cursor"] is None:
            return items
        params["cursor"] = page["next_cursor"]


def create_tokens(ledger):
    """The secret of each account and scope."""
    return {(account, scope): ledger.tokens.create_token(account, scope)[0] for account, scope in TOKENS}


@cache
def file_with_tokens():
    """A SQLite ledger with the tokens and no studies, and their secrets; made once in a process."""
    folder = Path(mkdtemp(prefix="bln-search-tokens-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    path = folder / "ledger.sqlite3"
    with closing(open_and_upgrade_ledger(f"sqlite:///{path}")) as ledger:
        return path, create_tokens(ledger)


@cache
def file_with_complete_study(name, account, options):
    """The ledger of `file_with_tokens` with a complete study, and the id of the study; made once in a process."""
    path = file_with_tokens()[0].with_name(f"{uuid4().hex}.sqlite3")
    copyfile(file_with_tokens()[0], path)
    with closing(open_and_upgrade_ledger(f"sqlite:///{path}")) as ledger:
        return path, complete_study(ledger, name, account, **dict(options))


def wait_until_unused(pool, seconds=5):
    """Wait until threads of ended streams have returned their connections; others would not be closed."""
    end = time.monotonic() + seconds
    while pool.checkedout() and time.monotonic() < end:
        time.sleep(0.01)


class World:
    """The service in this process, with a token for each account and scope."""

    def __init__(self, home, database=None):
        self.home = home
        self.settings = Settings(home=home, hosts=("testserver",), free_bytes=0, database=database)
        self.path = path = Path(home) / "ledger.sqlite3"
        self.is_copy = database is None and not path.exists()
        if self.is_copy:
            path.parent.mkdir(parents=True, exist_ok=True)
            copyfile(file_with_tokens()[0], path)
        self.ledger = open_and_upgrade_ledger(self.settings.database_url)
        self.queue = self.ledger.queue
        if isinstance(self.settings.checkpoint_store, FolderStore):
            self.settings.checkpoint_store.path.mkdir(parents=True, exist_ok=True)
        self.context = make_app_context(self.settings, self.ledger)
        self.app = application_of(self.context)
        self.secrets = file_with_tokens()[1] if self.is_copy else create_tokens(self.ledger)
        self.clients = []

    def client(self, account="ada", scope=Scope.WRITE, **extra_headers):
        """Return a client that sends the token of an account."""
        headers = {} if account is None else {"Authorization": f"Bearer {self.secrets[account, scope]}"}
        client = TestClient(self.app, headers={**headers, **extra_headers}, raise_server_exceptions=False)
        self.clients.append(client)
        return client

    def complete(self, name="done", account="ada", **options):
        """A study with all its results; the first one of a world is a copy."""
        if not self.is_copy or self._has_been_written():
            return complete_study(self.ledger, name, account, **options)
        path, study_id = file_with_complete_study(name, account, tuple(sorted(options.items())))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(self.path)) as target:
            source.backup(target)
        return study_id

    def _has_been_written(self):
        """Whether anything was written to the copy, into its file or its write-ahead log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        is_log_empty = not log.exists() or not log.stat().st_size
        return not is_log_empty or self.path.read_bytes() != file_with_tokens()[0].read_bytes()

    def close(self):
        for client in self.clients:
            client.close()
        wait_until_unused(self.ledger.database.engine.pool)
        self.ledger.close()
