"""Settings from environment and file; the password file of the database; errors with their source."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import make_url

from bln_search.core.errors import SpecError
from bln_search.settings import load_settings

URL = "postgresql+psycopg://bln_search@database/bln_search"


@pytest.fixture
def configured_url(tmp_path, monkeypatch):
    """Set the URL and the content of the file; the URL that comes of it."""

    def give(url, content):
        file = tmp_path / "password"
        if content is not None:
            file.write_bytes(content)
        monkeypatch.setenv("BLN_SEARCH_DATABASE_PASSWORD_FILE", str(file))
        if url is not None:
            monkeypatch.setenv("BLN_SEARCH_DATABASE", url)
        return load_settings().database_url

    return give


@pytest.mark.parametrize(
    ("content", "password"), [(b"abc\n", "abc"), (b"a b@/:%\r\n", "a b@/:%"), ("λ ".encode(), "λ ")]
)
def test_password_file_is_read_without_its_line_break(configured_url, content, password):
    assert make_url(configured_url(URL, content)) == make_url(URL).set(password=password)


@pytest.mark.parametrize(
    "url", ["postgresql+psycopg://u:own@h/d", "postgresql+psycopg://h/d", "sqlite:///x.sqlite3", "no url"]
)
def test_url_with_a_password_or_without_a_user_is_unchanged(configured_url, url):
    assert configured_url(url, b"other") == url


def test_without_a_url_the_database_is_sqlite_in_the_home(configured_url, home):
    assert configured_url(None, b"other") == f"sqlite:///{home / 'ledger.sqlite3'}"


def test_password_is_inserted_once(configured_url):
    assert configured_url(configured_url(URL, b"first"), b"second") == URL.replace("@", ":first@")


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff"])
def test_error_names_an_unusable_password_file(configured_url, tmp_path, content):
    with pytest.raises(SpecError, match=f"BLN_SEARCH_DATABASE_PASSWORD_FILE: {tmp_path / 'password'}"):
        configured_url(URL, content)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_SETTINGS", str(tmp_path / "settings.toml"))
    return tmp_path / "settings.toml"


def load_invalid_settings():
    with pytest.raises(SpecError) as error:
        load_settings()
    return str(error.value)


def test_error_in_the_settings_file_names_it_without_secrets(file):
    file.write_text('tokn = "bln_hush"\ntoken = ["bln_hush"]\nthreads = 0\n')
    message = load_invalid_settings()
    assert message.startswith(f"{file}: ")
    assert "tokn: there is no such setting; did you mean token?" in message
    assert "threads: Input should be greater than or equal to 1, not 0" in message
    assert "token: " in message
    assert "hush" not in message
    assert "BLN_SEARCH" not in message


def test_error_in_the_environment_names_the_variable(file, monkeypatch):
    file.write_text("most_trials = 0\n")
    monkeypatch.setenv("bln_search_threads", "none")
    message = load_invalid_settings()
    assert message.startswith(f"environment and {file}: ")
    assert "BLN_SEARCH_THREADS: Input should be a valid integer" in message
    assert "most_trials: " in message
    file.write_text("threads = 1\n")  # the environment comes first
    message = load_invalid_settings()
    assert message.startswith("environment: BLN_SEARCH_THREADS: ")
