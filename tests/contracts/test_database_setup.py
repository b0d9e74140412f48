"""A database that is not set up for bln-search is refused with one clear error when it is connected to."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from itertools import count

import pytest
from sqlalchemy import text

from bln_search.core.errors import LedgerError
from bln_search.storage.engine import make_engine, write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.contracts.conftest import create_database, execute

_numbers = count()
PASSWORD = "hunter2"


@pytest.fixture
def kind():
    return "postgres"


@pytest.fixture
def role(postgres):
    """A role without rights besides those of everybody."""
    name = f"role_{next(_numbers)}"
    execute(postgres, f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    return name


def write_url(url, **parts):
    return url.set(**parts).render_as_string(hide_password=False)


def create_database_with(postgres, options):
    name = f"setup_{next(_numbers)}"
    execute(postgres, f"CREATE DATABASE {name} {options} TEMPLATE template0")
    return name


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "WIN1252", "EUC_JP"])
def test_every_encoding_but_utf8_is_refused(postgres, encoding):
    name = create_database_with(postgres, f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(LedgerError, match=f"server_encoding {encoding}.*ENCODING 'UTF8'"):
        open_and_upgrade_ledger(write_url(postgres, database=name))


def test_texts_are_sent_as_utf8_whatever_the_environment_says(postgres, url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    engine = make_engine(url)
    with write_session(engine) as session:
        assert session.scalar(text("SELECT :value || ''"), {"value": "\N{SNOWMAN}"}) == "\N{SNOWMAN}"
    engine.dispose()
    with pytest.raises(LedgerError, match=r"client_encoding LATIN1.*remove client_encoding"):
        open_and_upgrade_ledger(f"{url}&client_encoding=latin1")


def test_a_role_that_may_not_create_tables_is_named_with_the_grant_that_it_lacks(postgres, role):
    name = create_database_with(postgres, "")
    with pytest.raises(LedgerError) as error:
        open_and_upgrade_ledger(write_url(postgres, database=name, username=role, password=PASSWORD))
    assert PASSWORD not in str(error.value)
    (grant,) = [part for part in str(error.value).split(" run ") if part.startswith("GRANT")]
    execute(postgres.set(database=name), grant.removesuffix(" in that database"))
    open_and_upgrade_ledger(write_url(postgres, database=name, username=role, password=PASSWORD)).close()


def test_a_database_without_a_schema_is_refused(postgres, role):
    name = create_database_with(postgres, "")
    execute(postgres.set(database=name), "DROP SCHEMA public")
    with pytest.raises(LedgerError, match="finds no schema"):
        open_and_upgrade_ledger(write_url(postgres, database=name, username=role))


def test_a_role_that_may_only_read_reads_a_complete_database(postgres, role):
    """As a role of a read-only replica does."""
    name = f"setup_{next(_numbers)}"
    open_and_upgrade_ledger(create_database(postgres, name)).close()
    url = write_url(postgres, database=name, username=role, password=PASSWORD)
    with pytest.raises(LedgerError, match="refuses its role: permission denied"):
        open_and_upgrade_ledger(url)
    execute(postgres.set(database=name), f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    execute(postgres, f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with closing(open_and_upgrade_ledger(url)) as ledger:
        assert ledger.studies.list_studies() == []
        with pytest.raises(LedgerError):
            ledger.tokens.create_first_token("ada")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("sslmod=require", "unknown option 'sslmod': did you mean sslmode"),
        ("conect_timeout=3", "unknown option 'conect_timeout': did you mean connect_timeout"),
        ("aplication_name=a", "unknown option 'aplication_name': did you mean application_name"),
        ("zzz=1", "unknown option 'zzz': remove it"),
        ("sslmode=maybe", "sslmode"),
        ("connect_timeout=soon", "connect_timeout"),
        ("port=high", "port"),
    ],
)
def test_a_wrong_option_of_a_postgres_url_is_named(url, option, message):
    with pytest.raises(LedgerError, match=message):
        open_and_upgrade_ledger(f"{url}&{option}")


@pytest.mark.parametrize("option", ["timeut=3", "foo=1", "timeout=soon"])
def test_a_wrong_option_of_a_sqlite_url_is_named(tmp_path, option):
    with pytest.raises(LedgerError, match="option"):
        open_and_upgrade_ledger(f"sqlite:///{tmp_path}/ledger.sqlite3?{option}")


@pytest.mark.parametrize("option", ["timeout=3", "uri=true", "check_same_thread=true"])
def test_a_known_option_of_a_sqlite_url_is_kept(tmp_path, option):
    prefix = "file:" if option.startswith("uri") else ""
    open_and_upgrade_ledger(f"sqlite:///{prefix}{tmp_path}/ledger.sqlite3?{option}").close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "location",
    [
        "u:hunter2@127.0.0.1:9/x",
        "u@127.0.0.1:9/x?password=hunter2",
        "u@127.0.0.1:9/x?sslpassword=hunter2&password=hunter2&sslmod=require",
        "u:hunter2@127.0.0.1:9/x?connect_timeout=soon",
        "u:hunter2@HOST/absent_database",
    ],
)
def test_a_command_ends_with_one_line_that_repeats_no_password(postgres, location):
    host = postgres.query["host"]
    url = f"postgresql+psycopg://{location.replace('u:hunter2@HOST', 'postgres:hunter2@')}"
    if "HOST" in location:
        url += f"?host={host}"
    command = [sys.executable, "-m", "bln_search", "list", "--database", url]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stdout == ""
    assert process.stderr.startswith("error: the database postgresql+psycopg://")
    assert "Traceback" not in process.stderr
    assert PASSWORD not in process.stderr
