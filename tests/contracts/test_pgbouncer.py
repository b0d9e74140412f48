"""Behind PgBouncer in transaction mode everything works, and no setting reaches another client of the pool."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from bln_search.core.errors import LedgerError
from bln_search.core.states import StudyState, TrialState
from bln_search.search.optuna.records import OptunaRecords
from bln_search.specs import parse_study
from bln_search.storage.engine import make_engine, read_session, write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from tests.contracts.conftest import execute
from tests.contracts.poolers import run_pgbouncer
from tests.support.watchers import RecordingWatcher
from tests.worker.objective_executor import ObjectiveExecutor

STUDY = """
name: searched
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bn}, {method: ln}]
training: {epochs: 2, optimizer: sgd}
seeds: [0]
space: {training.learning_rate: {kind: float, low: 1e-4, high: 1, log: true}}
search: {sampler: SAMPLER, trials: 6}
"""


@pytest.fixture
def kind():
    return "postgres"


@pytest.fixture
def pool(postgres, url):
    """The URL of an empty database behind PgBouncer, whose clients share two connections: Optuna opens two at once."""
    with run_pgbouncer(postgres, size=2) as bouncer:
        yield bouncer.set(database=make_url(url).database).render_as_string(hide_password=False)


def settings_of_pool(pool):
    """Settings that other clients of the pool see, which have all of its connections."""
    url = pool.replace("+psycopg", "")
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        return [
            connection.execute(f"SHOW {name}").fetchone()[0]
            for name in ("lock_timeout", "search_path", "transaction_read_only")
            for connection in (one, other)
        ]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_search_runs_behind_a_pool_and_leaves_it_as_it_was(pool, sampler):
    before = settings_of_pool(pool)
    with closing(open_and_upgrade_ledger(pool)) as ledger:
        study_id = ledger.studies.store_study_once(parse_study(STUDY.replace("SAMPLER", sampler)))
        executor = ObjectiveExecutor(lambda trial: float(trial.training.learning_rate))
        assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
        assert ledger.studies.get(study_id).trials == {TrialState.FINISHED: 12}
        assert settings_of_pool(pool) == before
        with ledger.database.read_session() as session:
            tables = text("SELECT count(*) FROM information_schema.tables WHERE table_schema = :schema")
            assert session.scalar(tables, {"schema": "optuna"}) > 0
            named = text("SELECT count(*) FROM information_schema.tables WHERE table_name = 'alembic_version'")
            assert session.scalar(named) == 1


def test_the_lock_timeout_of_a_transaction_ends_with_it(pool):
    before = settings_of_pool(pool)
    engine = make_engine(pool)
    for open_session in (read_session, write_session):
        with open_session(engine) as session:
            assert session.scalar(text("SHOW lock_timeout")) == "10s"
        assert settings_of_pool(pool) == before
    engine.dispose()


def test_statements_that_are_repeated_often_run_behind_a_pool(pool):
    """A driver prepares them on a connection of the server, which the next transaction may not have."""
    with closing(open_and_upgrade_ledger(pool)) as first, closing(open_and_upgrade_ledger(pool)) as second:
        for number in range(20):
            for ledger in (first, second):
                ledger.tokens.create_first_token(f"ada{number}")
                assert ledger.studies.list_studies() == []


def test_another_encoding_is_refused_behind_a_pool(postgres):
    execute(postgres, "CREATE DATABASE pooled_latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with run_pgbouncer(postgres) as bouncer, pytest.raises(LedgerError, match="server_encoding LATIN1"):
        open_and_upgrade_ledger(bouncer.set(database="pooled_latin").render_as_string(hide_password=False))


@pytest.mark.parametrize("schema", ["optuna_of_x", 'odd "name"', "Größe"])
def test_the_records_of_every_schema_are_apart(postgres, url, schema):
    quoted = schema.replace('"', '""')
    execute(make_url(url), f'CREATE SCHEMA "{quoted}"')
    records = OptunaRecords(url, schema)
    records.create_new_study([], "one")
    records.remove_session()
    records.engine.dispose()
    engine = make_engine(url)
    with read_session(engine) as session:
        assert session.scalar(text(f'SELECT count(*) FROM "{quoted}".studies')) == 1
        assert session.scalar(text("SELECT to_regclass('public.studies')")) is None
    engine.dispose()
