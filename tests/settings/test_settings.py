"""Settings from environment and file; the password file of the database; errors with their source."""

from __future__ import annotations

import json

import pytest
from platformdirs import user_cache_path
from sqlalchemy.engine import make_url

from bln_search.core.errors import SpecError
from bln_search.settings import load_settings
from bln_search.storage.ledger import open_and_upgrade_ledger

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


@pytest.mark.parametrize("name", ["TOKEN", "DATABASE", "SERVER"])
def test_a_secret_with_an_illegal_character_is_refused_without_showing_it(file, monkeypatch, name):
    file.write_text("")
    monkeypatch.setenv(f"BLN_SEARCH_{name}", "x://ada:hush\n@host")
    message = load_invalid_settings()
    assert f"BLN_SEARCH_{name}: contains" in message
    assert "hush" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "url",
    [
        "hush",
        "ftp://host/hush",
        "https:///hush",
        "https://host:x/hush",
        "https://host/a hush",
        "https://[hush",
        "//hush",
    ],
)
def test_webhook_url_that_is_none_is_refused_without_showing_it(file, monkeypatch, url):
    file.write_text("")
    monkeypatch.setenv("BLN_SEARCH_WEBHOOK_URL", url)
    message = load_invalid_settings()
    assert "BLN_SEARCH_WEBHOOK_URL: write a URL with scheme and host, as in https://host/path" in message
    assert "hush" not in message


@pytest.mark.parametrize("secret", ["hush" * 8, "whsec_hush", "whsec_" + "hush" * 22, "whsec_" + "*" * 32, "whsec_λ"])
def test_webhook_secret_of_another_form_is_refused_without_showing_it(file, monkeypatch, secret):
    file.write_text("")
    monkeypatch.setenv("BLN_SEARCH_WEBHOOK_SECRET", secret)
    message = load_invalid_settings()
    assert "BLN_SEARCH_WEBHOOK_SECRET: write whsec_ and 24 to 64 bytes in base64: print a new one with `echo" in message
    assert secret not in message


def test_webhook_is_not_shown(file, monkeypatch):
    file.write_text("")
    monkeypatch.setenv("BLN_SEARCH_WEBHOOK_URL", " https://ada:hush@host/hush ")
    monkeypatch.setenv("BLN_SEARCH_WEBHOOK_SECRET", "whsec_" + "hush" * 8)
    settings = load_settings()
    assert settings.webhook_url.get_secret_value() == "https://ada:hush@host/hush"
    assert len(settings.read_webhook_key()) == 24
    assert "hush" not in f"{settings!r} {settings}"


@pytest.mark.parametrize("url", ["host", "https://ada:hush@host", "https://host/?x=1"])
def test_public_url_that_leads_to_no_page_is_refused(file, monkeypatch, url):
    file.write_text("")
    monkeypatch.setenv("BLN_SEARCH_PUBLIC_URL", url)
    message = load_invalid_settings()
    assert "BLN_SEARCH_PUBLIC_URL: " in message
    assert "hush" not in message


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", "\t{} ", "\ufeff{}"])
def test_white_space_around_a_value_is_removed(file, monkeypatch, around):
    file.write_text(f"server = {json.dumps(around.format('http://host'))}\n")
    monkeypatch.setenv("BLN_SEARCH_TOKEN", around.format("bln_x"))
    monkeypatch.setenv("BLN_SEARCH_DATABASE", around.format(URL))
    settings = load_settings()
    assert settings.token.get_secret_value() == "bln_x"
    assert (settings.server, settings.database) == ("http://host", URL)


def test_settings_are_shown_without_passwords(file, monkeypatch):
    file.write_text("")
    monkeypatch.setenv("BLN_SEARCH_TOKEN", "bln_hush")
    monkeypatch.setenv("BLN_SEARCH_DATABASE", URL.replace("@", ":hush@"))
    monkeypatch.setenv("BLN_SEARCH_SERVER", "http://ada:hush@host")
    monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", "sftp://ada:hush@host/x")
    settings = load_settings()
    assert "hush" not in f"{settings!r} {settings} {settings.checkpoint_store}"


@pytest.mark.parametrize("name", ["a?x=1", "a#x", "p%20q", "a b", "ü λ", "back\\slash", "a@b:c", "a&b=1;c"])
def test_the_database_is_in_the_home_folder_whatever_its_name(tmp_path, monkeypatch, name):
    monkeypatch.setenv("BLN_SEARCH_HOME", str(tmp_path / name))
    open_and_upgrade_ledger(load_settings().database_url).close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name / "ledger.sqlite3"]
    assert load_settings().output_folders[0] == tmp_path / name


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    defaults = load_settings()
    for name in ("DATA", "DATABASE", "CHECKPOINTS", "TOKEN", "SERVER", "CACHE"):
        monkeypatch.setenv(f"BLN_SEARCH_{name}", "")
    assert load_settings() == defaults.model_copy(update={"cache": user_cache_path("bln-search")})


def test_paths_are_absolute_and_know_the_users_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("BLN_SEARCH_HOME", "~/bln")
    monkeypatch.setenv("BLN_SEARCH_DATA", "data")
    monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", "~/kept")
    monkeypatch.setenv("BLN_SEARCH_DATABASE", "sqlite:///~/other/x.sqlite3")
    settings = load_settings()
    assert (settings.home, settings.data) == (tmp_path / "me" / "bln", tmp_path / "data")
    assert settings.output_folders[1:] == [tmp_path / "me" / "kept", tmp_path / "me" / "other"]
    open_and_upgrade_ledger(settings.database_url).close()
    assert (tmp_path / "me" / "other" / "x.sqlite3").is_file()


@pytest.mark.parametrize("value", ["/tmp/x\n", "a\tb", "~nobody-of-this-name/x", " "])
@pytest.mark.parametrize("name", ["HOME", "DATA", "CHECKPOINTS", "LOG_FILE"])
def test_an_unusable_path_is_refused(file, monkeypatch, name, value):
    file.write_text("")
    monkeypatch.setenv(f"BLN_SEARCH_{name}", value)
    assert f"BLN_SEARCH_{name}: " in load_invalid_settings()


@pytest.mark.parametrize("content", [b"ab\tc", b"abc\t\n", b"a\nb", b"a\x00b", b"\xff\xfea"])
def test_a_password_file_with_more_than_a_password_is_refused(configured_url, content):
    with pytest.raises(SpecError, match="PASSWORD_FILE") as error:
        configured_url(URL, content)
    assert "\\x" not in str(error.value)


def test_the_byte_order_mark_of_a_password_file_is_removed(configured_url):
    assert make_url(configured_url(URL, b"\xef\xbb\xbfabc\r\n")).password == "abc"
