"""No command prints or logs a token or a password, whatever is wrong with address, certificate, proxy or token."""

from __future__ import annotations

import logging

import pytest
from typer.main import get_command

from bln_search.cli.main import app
from bln_search.client import Client
from tests.client.test_connection import HERE, answering, authority
from tests.end_to_end.commands import call
from tests.support.tiers import thinned

__all__ = ["authority"]

SECRET = "bln_Wq7-hushHUSHhush_42zzzzzzzzzzzzzzzzzzzzzzz"
PASSWORD = "Wq7hushHUSHhush42"
STUDY = "name: s\ndata: {name: digits}\nmodel: {name: mlp, widths: [8]}\narms: [{method: bln}]\nseeds: [0]\n"
CLOSED = "http://127.0.0.1:1"
"""A port on which nothing listens."""

NEVER_ENDING = {("serve",), ("worker",)}
"""They wait for a database; their errors are those of `db status`."""


def find_commands(command, path=()):
    """Yield every command with the words that call it."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from find_commands(inner, (*path, name))
    else:
        yield path, command


def words_of(path, command, folder):
    """A call with a value for everything that is required."""
    file = folder / "study.yaml"
    file.write_text(STUDY)
    values = {"file": file, "link_id": 1, "token_id": 1, "target": folder / "backup", "source": folder / "study.yaml"}
    arguments = [
        values.get(parameter.name, "1")
        for parameter in command.params
        if parameter.param_type_name == "argument" and (parameter.required or parameter.name == "token_id")
    ]
    options = {"output": folder / "out", "name": "s", "to": f"tensorboard:{folder / 'events'}"}
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.required:
            arguments += [parameter.opts[0], options[parameter.name]]
        elif parameter.name in ("yes", "account") and path[0] in ("delete", "token"):
            arguments += [parameter.opts[0]] if parameter.name == "yes" else []
    return ["--verbose", *path, *arguments]


def commands_with(option):
    found = [
        pytest.param(path, command, id=" ".join(path))
        for path, command in find_commands(get_command(app).load_all())
        if option in {parameter.name for parameter in command.params} and path not in NEVER_ENDING
    ]
    assert len(found) > 10
    return found


def assert_hidden(done, *secrets):
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed, printed
    assert done.returncode, printed
    for secret in secrets:
        assert not any(part in printed for part in (secret, secret[:12], secret[-12:])), printed


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def no_repeated_requests(monkeypatch):
    monkeypatch.setitem(Client.__init__.__kwdefaults__, "patience", 0.0)


@pytest.fixture(autouse=True)
def no_log_handlers():
    """--verbose configures the root logger only where it has no handlers."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers.clear()
    yield
    root.handlers[:] = handlers


TOKENS = {
    "newline": f"{SECRET}\n",
    "tab": f" {SECRET}\t",
    "line inside": f"{SECRET[:20]}\n{SECRET[20:]}",
    "carriage return": f"{SECRET}\r\n",
    "space inside": f"{SECRET[:20]} {SECRET[20:]}",
    "quoted": f'"{SECRET}"',
    "not ASCII": f"{SECRET}é",
}
LIST = dict(find_commands(get_command(app).load_all()))["list",]


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_token_with_other_characters_is_not_shown(token, tmp_path, monkeypatch):
    words = words_of(("list",), LIST, tmp_path)
    assert_hidden(call(*words, "--server", CLOSED, "--token", token), SECRET)
    monkeypatch.setenv("BLN_SEARCH_TOKEN", token)
    assert_hidden(call(*words, "--server", CLOSED), SECRET)


@pytest.mark.parametrize(("path", "command"), commands_with("token"))
def test_no_command_shows_a_token_to_a_service_that_does_not_answer(path, command, tmp_path, monkeypatch):
    words = words_of(path, command, tmp_path)
    assert_hidden(call(*words, "--server", CLOSED, "--token", TOKENS["newline"]), SECRET)
    monkeypatch.setenv("BLN_SEARCH_SERVER", CLOSED)
    for token in (TOKENS["tab"], TOKENS["line inside"]):
        monkeypatch.setenv("BLN_SEARCH_TOKEN", token)
        assert_hidden(call(*words), SECRET)


SURROUNDINGS = [
    ("HTTP_PROXY", f"http://ada:{PASSWORD}@127.0.0.1:1", "http://host.invalid"),
    ("HTTPS_PROXY", f"http://ada:{PASSWORD}@127.0.0.1:1", "https://host.invalid"),
    ("ALL_PROXY", f"socks5://ada:{PASSWORD}@127.0.0.1:1", "http://host.invalid"),
    ("HTTP_PROXY", f"ftp://ada:{PASSWORD}@host", "http://host.invalid"),
    ("SSL_CERT_FILE", "/nowhere/missing.pem", "https://127.0.0.1:1"),
    ("NO_PROXY", "*", f"http://ada:{PASSWORD}@127.0.0.1:1"),
    ("NO_PROXY", "*", f"http://127.0.0.1:1/?token={PASSWORD}"),
    ("NO_PROXY", "*", f"http://127.0.0.1:port/#password={PASSWORD}"),
]


@pytest.mark.parametrize(("variable", "value", "server"), SURROUNDINGS)
def test_wrong_proxies_certificates_and_addresses_show_no_secret(variable, value, server, tmp_path, monkeypatch):
    words = words_of(("list",), LIST, tmp_path)
    monkeypatch.setenv("BLN_SEARCH_TOKEN", TOKENS["newline"])
    monkeypatch.setenv(variable, value)
    assert_hidden(call(*words, "--server", server), SECRET, PASSWORD)
    monkeypatch.setenv("BLN_SEARCH_SERVER", server)
    assert_hidden(call(*words), SECRET, PASSWORD)


@pytest.mark.parametrize(("path", "command"), commands_with("token"))
def test_no_command_shows_the_password_of_a_proxy_or_an_address(path, command, tmp_path, monkeypatch):
    words = words_of(path, command, tmp_path)
    monkeypatch.setenv("BLN_SEARCH_TOKEN", TOKENS["newline"])
    for variable, value, server in (SURROUNDINGS[0], SURROUNDINGS[5]):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            assert_hidden(call(*words, "--server", server), SECRET, PASSWORD)


@pytest.mark.parametrize("status", [401, 500])
@pytest.mark.parametrize(("path", "command"), commands_with("token")[:4])
def test_no_command_shows_a_token_that_a_server_repeats(path, command, status, tmp_path, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_TOKEN", f"{SECRET}\n")
    body = f'{{"detail": "no Bearer {SECRET}", "title": "{SECRET}", "token": "{SECRET}"}}'
    with answering(status, {"Content-Type": "application/problem+json"}, body) as server:
        assert_hidden(call(*words_of(path, command, tmp_path), "--server", f"http://{server}"), SECRET)


@pytest.mark.parametrize(("path", "command"), commands_with("token")[:6])
def test_no_command_shows_a_token_where_a_certificate_is_refused(path, command, tmp_path, monkeypatch, authority):
    make_context, _ = authority
    monkeypatch.setenv("BLN_SEARCH_TOKEN", f"{SECRET}\n")
    with answering(tls=make_context(HERE)) as server:
        assert_hidden(call(*words_of(path, command, tmp_path), "--server", f"https://{server}"), SECRET)


DATABASES = [
    f"postgresql+psycopg://ada:{PASSWORD}@127.0.0.1:1/x",
    f"postgresql+psycopg://ada@127.0.0.1:1/x?password={PASSWORD}",
    f"postgresql+psycopg://ada:{PASSWORD}@127.0.0.1:port/x",
    f"postgresql+psycopg://ada:{PASSWORD}@127.0.0.1:1/x?sslmod=require",
    f"postgres://ada:{PASSWORD}@127.0.0.1:1/x",
    f"oracle://ada:{PASSWORD}@127.0.0.1:1/x",
    f"nonsense://ada:p@{PASSWORD}@127.0.0.1:1/x",
]


@pytest.mark.parametrize("url", DATABASES)
@pytest.mark.parametrize("words", [("list",), ("db", "status")])
def test_no_kind_of_database_url_shows_its_password(url, words, monkeypatch):
    assert_hidden(call("--verbose", *words, "--database", url), PASSWORD)
    monkeypatch.setenv("BLN_SEARCH_DATABASE", url)
    assert_hidden(call("--verbose", *words), PASSWORD)


@pytest.mark.parametrize(("path", "command"), thinned(commands_with("database"), 3))
def test_no_command_shows_the_password_of_a_database(path, command, tmp_path, monkeypatch):
    words = words_of(path, command, tmp_path)
    assert_hidden(call(*words, "--database", DATABASES[0]), PASSWORD)
    monkeypatch.setenv("BLN_SEARCH_DATABASE", DATABASES[1])
    assert_hidden(call(*words), PASSWORD)
