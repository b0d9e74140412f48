"""Faults of proxies, certificates, addresses and servers: one line with the cause, and never with a secret."""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
import traceback
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bln_search.cli.sources.service import ServiceSource
from bln_search.client import Client, ServiceError

TOKEN = "bln_hush-hush_0123456789"
DEAD = "127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def fail(server, token=TOKEN, timeout=30.0):
    """The error of a request, which is one line without the token."""
    with pytest.raises(ServiceError) as error, Client(server, token, patience=0, timeout=timeout) as client:
        client.study(1)
    trace = "".join(traceback.format_exception(error.value))
    for text in (str(error.value), repr(error.value), trace):
        assert "hush" not in text
    assert "\n" not in str(error.value)
    return str(error.value)


class Answer(http.server.BaseHTTPRequestHandler):
    """The answer that the path names, which repeats the request as a page for developers does."""

    status, headers_of_answer, body = 200, {}, None

    def do_GET(self):
        content = self.headers["Authorization"] if self.body is None else self.body
        self.send_response(self.status)
        for name, value in self.headers_of_answer.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(str(content).encode())

    do_CONNECT = do_GET  # noqa: N815 - the name in the base class

    def log_message(self, *_arguments):
        """Nothing."""


@contextmanager
def answering(status=200, headers=None, body=None, tls=None):
    """A server on this machine: its host and port."""
    handler = type("Answering", (Answer,), {"status": status, "headers_of_answer": headers or {}, "body": body})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def speaking(data):
    """A server that sends bytes, whatever it is asked, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.recv(65536)
                connection.sendall(data)
                if data:
                    connection.close()
                else:
                    connections.append(connection)

        connections = []
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    "server",
    [
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://::1:8000",
        "http://[::1",
        "http://host:port",
        "http://host:99999",
        "http://two words",
        f"http://host:8000/#token={TOKEN}",
        "http://host?token=hush",
        "http://ada:hush@host",
        "https://hush@host",
        "http://ada:hu\nsh@host",
        "",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(server):
    fail(server)


@pytest.mark.parametrize("token", [f"{TOKEN}\n{TOKEN}", f'"{TOKEN}"', "hush é", "\n"])
def test_a_token_that_is_none_is_refused_at_once(token):
    assert "the access token" in fail("http://127.0.0.1:9", token)


@pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {}\t", "\ufeff{}"])
def test_white_space_around_the_token_is_not_sent(around):
    with answering(body='{"authorization": 1}') as host, Client(f"http://{host}/", around.format(TOKEN)) as client:
        assert client.session() == {"authorization": 1}
        assert client._session._http.headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_service_that_does_not_run_is_to_be_started():
    assert "Connection refused; start it with `bln-search serve`" in fail(f"http://{DEAD}")


def test_an_unknown_host_name_is_the_cause():
    assert "host name nowhere.invalid is unknown" in fail("http://nowhere.invalid")


@pytest.mark.parametrize(
    ("variable", "url", "scheme"),
    [("HTTP_PROXY", f"http://ada:hush@{DEAD}", "http"), ("all_proxy", DEAD, "http"), ("https_proxy", DEAD, "https")],
)
def test_a_dead_proxy_is_the_cause_and_not_the_service(monkeypatch, variable, url, scheme):
    monkeypatch.setenv(variable, url)
    message = fail(f"{scheme}://127.0.0.1:8000")
    assert f"{DEAD} of {variable} does not answer" in message
    assert "serve" not in message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_demands_a_password_is_the_cause(monkeypatch, scheme):
    with answering(407) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://ada:hush@{proxy}")
        assert "demands a user and a password" in fail(f"{scheme}://bln.example.org")


def test_a_proxy_that_refuses_a_tunnel_is_the_cause(monkeypatch):
    with answering(502) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy}")
        assert f"http://{proxy} of https_proxy does not connect" in fail("https://bln.example.org")


def test_a_socks_proxy_needs_its_package(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    assert "httpx[socks]" in fail("http://127.0.0.1:8000")


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, {"Content-Type": "text/html"}, None),
        (401, {}, "<html>who are you?</html>"),
        (301, {"Location": "https://other.example.org/login?token=hush"}, None),
        (400, {"Content-Type": "application/problem+json"}, f'{{"detail": "not {TOKEN}", "errors": []}}'),
        (500, {}, "[1]"),
        (520, {}, ""),
        (200, {"Content-Encoding": "gzip"}, "hush"),
        (200, {}, "[]"),
        (200, {}, '{"items":'),
    ],
)
def test_the_answer_of_another_program_is_not_repeated(status, headers, body):
    with answering(status, headers, body) as host:
        fail(f"http://{host}")


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-OpenSSH hush\r\n", b"HTTP/1.1 200 OK\r\nhush\x00\r\n\r\n", b"HTTP/1.1 200 O"]
)
def test_a_server_that_speaks_another_protocol_is_the_cause(data):
    with speaking(data) as host:
        assert "another program" in fail(f"http://{host}")


def test_a_server_that_stays_silent_is_the_cause():
    with speaking(b"") as host:
        assert "did not answer within 0.2 s" in fail(f"http://{host}", timeout=0.2)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """An authority: a function that makes the context of a server with a certificate of it, and its own file."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of the test")])
    now = datetime.now(UTC)

    def sign(subject, public_key, alternative, days):
        usage = x509.KeyUsage(True, False, False, False, False, subject == name, False, False, False)
        builder = x509.CertificateBuilder(name, subject, public_key, x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=9)).not_valid_after(now + timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=subject == name, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if alternative is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def make_context(alternative, days=9):
        own = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "service")])
        secret = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / "server.pem").write_bytes(secret + sign(subject, own.public_key(), alternative, days))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        return context

    (folder / "authority.pem").write_bytes(sign(name, key.public_key(), None, 9))
    return make_context, folder / "authority.pem"


HERE = x509.IPAddress(ip_address("127.0.0.1"))


def test_a_certificate_of_a_named_authority_is_accepted(monkeypatch, authority):
    make_context, file = authority
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with (
        answering(body='{"account": "ada"}', tls=make_context(HERE)) as host,
        Client(f"https://{host}", TOKEN) as client,
    ):
        assert client.session() == {"account": "ada"}


@pytest.mark.parametrize(
    ("alternative", "days", "is_known", "cause"),
    [
        (HERE, 9, False, "SSL_CERT_FILE"),
        (HERE, -1, True, "expired"),
        (x509.IPAddress(ip_address("127.0.0.2")), 9, True, "another address"),
        (x509.DNSName("bln.example.org"), 9, True, "another"),
    ],
)
def test_a_certificate_that_is_refused_is_the_cause(monkeypatch, authority, alternative, days, is_known, cause):
    make_context, file = authority
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with answering(tls=make_context(alternative, days)) as host:
        message = fail(f"https://{host}")
    assert "its certificate" in message
    assert cause in message


def test_tls_on_one_side_only_is_the_cause(authority):
    with answering() as host:
        assert "http:// rather than https://" in fail(f"https://{host}")
    with answering(tls=authority[0](HERE)) as host:
        assert "https://" in fail(f"http://{host}").partition("cannot be reached")[2]


@pytest.mark.parametrize(
    ("variable", "content"), [("SSL_CERT_FILE", None), ("SSL_CERT_FILE", b"x"), ("SSL_CERT_DIR", None)]
)
def test_certificates_that_cannot_be_read_are_the_cause(monkeypatch, tmp_path, variable, content):
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(variable, str(file))
    assert f"{variable}" in fail("https://127.0.0.1:9")
    assert "Connection refused" in fail("http://127.0.0.1:9")  # which needs no certificate


@pytest.mark.parametrize(
    "read",
    [
        lambda client: client.study("mine"),
        lambda client: ServiceSource(client).get_study("1"),
        lambda client: ServiceSource(client).list_studies(),
        lambda client: ServiceSource(client).list_events(1),
        lambda client: client.workers()[0]["name"],
    ],
)
def test_json_of_another_server_names_the_missing_field(read):
    body = '{"status": "ok", "items": [{"metadata": {}}]}'
    with (
        answering(body=body) as address,
        Client(f"http://{address}", TOKEN, patience=0) as client,
        pytest.raises(ServiceError, match="without the field"),
    ):
        read(client)
