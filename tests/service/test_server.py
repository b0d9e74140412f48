"""The first token, and the environment of the worker process."""

from __future__ import annotations

import dataclasses
import socket
from contextlib import closing

import pytest

from bln_search.core.errors import SpecError
from bln_search.settings import Settings, load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger
from service.app import make_app_context
from service.server import (
    ServerStartError,
    _open_listening_socket,
    _print_url_and_create_first_token,
    serve_forever,
)
from service.worker_process import make_worker_environment_variables


@pytest.fixture
def context(home):
    settings = Settings(home=home)
    ledger = open_and_upgrade_ledger(settings.database_url)
    yield make_app_context(settings, ledger)
    ledger.close()


@pytest.mark.parametrize("with_token", [True, False])
def test_first_token_is_printed_once_and_only_on_loopback(context, home, capsys, with_token):
    _print_url_and_create_first_token(context, "http://here:1", with_token=with_token)
    token = (home / "token").read_text().strip()
    assert (home / "token").stat().st_mode & 0o777 == 0o600
    output = capsys.readouterr().out
    assert (token in output) is with_token
    assert str(home / "token") in output
    _print_url_and_create_first_token(context, "http://here:1", with_token=with_token)
    assert capsys.readouterr().out == "bln-search: http://here:1\n"


@pytest.mark.parametrize("with_token", [True, False])
def test_token_of_another_database_is_kept(context, home, capsys, with_token):
    (home / "token").write_text("the only copy")
    _print_url_and_create_first_token(context, "http://here:1", with_token=with_token)
    assert (home / "token").read_text() == "the only copy"
    assert (home / "token-2").stat().st_mode & 0o777 == 0o600
    token = (home / "token-2").read_text().strip()
    assert context.ledger.tokens.find_bearer(token) is not None
    output = capsys.readouterr().out
    assert (token in output) is with_token
    assert f"{home / 'token'} is kept" in output
    assert f"set BLN_SEARCH_TOKEN to the content of {home / 'token-2'}" in output


def test_token_that_cannot_be_written_is_one_error(context, home):
    context = dataclasses.replace(context, settings=Settings(home=home / "ledger.sqlite3"))
    with pytest.raises(ServerStartError, match=r"cannot be written to .*; then `bln-search token create"):
        _print_url_and_create_first_token(context, "http://here:1", with_token=True)


def test_database_in_a_missing_folder_is_refused_and_no_folder_is_created(tmp_path):
    settings = Settings(home=tmp_path / "home", database=f"sqlite:///{tmp_path}/mistyped/ledger.sqlite3")
    with pytest.raises(SpecError, match=f"there is no folder {tmp_path}/mistyped; create it, or correct --database"):
        serve_forever(settings, "127.0.0.1", 0, with_worker=False)
    assert not list(tmp_path.iterdir())


def test_webhook_without_a_secret_is_refused_before_anything_is_created(tmp_path):
    settings = Settings(home=tmp_path / "home", webhook_url="https://host/hush")
    with pytest.raises(SpecError, match="BLN_SEARCH_WEBHOOK_SECRET: set either") as error:
        serve_forever(settings, "127.0.0.1", 0, with_worker=False)
    assert "hush" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_service_listens_on_addresses_of_both_families(host):
    with (
        closing(_open_listening_socket(host, 0)) as listener,
        socket.create_connection(listener.getsockname()[:2], timeout=5),
    ):
        connection, _ = listener.accept()
        connection.close()


@pytest.mark.parametrize("host", ["a..b", "192.0.2.1", "2001:db8::1"])
def test_address_that_cannot_be_opened_is_one_error(host):
    with pytest.raises(ServerStartError, match="choose another with --host"):
        _open_listening_socket(host, 0)


def test_port_in_use_is_one_error():
    with (
        closing(_open_listening_socket("127.0.0.1", 0)) as listener,
        pytest.raises(ServerStartError, match="choose another with --port"),
    ):
        _open_listening_socket("127.0.0.1", listener.getsockname()[1])


def test_password_of_a_file_is_not_in_the_workers_environment(tmp_path, monkeypatch):
    (tmp_path / "password").write_text("hidden")
    monkeypatch.setenv("BLN_SEARCH_DATABASE", "postgresql+psycopg://ada@db/x")
    monkeypatch.setenv("BLN_SEARCH_DATABASE_PASSWORD_FILE", str(tmp_path / "password"))
    settings = load_settings()
    assert "hidden" in settings.database_url
    environment = make_worker_environment_variables(settings)
    assert environment["BLN_SEARCH_DATABASE"] == "postgresql+psycopg://ada@db/x"
    assert not any("hidden" in value for value in environment.values())


def test_webhook_is_not_in_the_workers_environment(monkeypatch):
    for name in ("BLN_SEARCH_WEBHOOK_URL", "bln_search_webhook_secret"):
        monkeypatch.setenv(name, "hidden")
    environment = make_worker_environment_variables(Settings.model_construct(database=None))
    assert "PATH" in environment
    assert not any("hidden" in value for value in environment.values())
