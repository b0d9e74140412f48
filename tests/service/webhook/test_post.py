"""One attempt to post a message, to a real receiver: what the answer means, and the signature."""

from __future__ import annotations

import base64
import json
import time

import pytest
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError

from bln_search.core.errors import SpecError
from service.webhook import post
from service.webhook.post import Webhook, make_signature_headers, post_message
from tests.support.webhook_receiver import ACCEPT, SECRET, receiving

BODY = '{"text": "λ"}'


@pytest.fixture
def short_timeout(monkeypatch):
    monkeypatch.setattr(post, "_TIMEOUT", 0.3)


def hang(_handler):
    time.sleep(1)


def send_slowly(handler):
    """A header that never ends, a byte at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(20):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def close_before_the_status(handler):
    handler.close_connection = True


def close_within_the_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    handler.close_connection = True


def close_within_the_body(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
    handler.close_connection = True


def send_a_huge_body(handler):
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(100_000):
            handler.wfile.write(b"x" * 100_000)
    except OSError:  # nobody reads it
        handler.close_connection = True


def redirect(handler):
    handler.send_response(307)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()


def send_no_http(handler):
    handler.wfile.write(b"hello\r\n\r\n")
    handler.close_connection = True


def test_message_has_headers_and_a_signature_that_the_library_of_receivers_accepts():
    with receiving() as receiver:
        assert post_message(receiver.webhook(), "msg_1", BODY).is_accepted
        (request,) = receiver.requests
    assert request.path == "/hook"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("bln-search/")
    assert StandardWebhook(SECRET).verify(request.body, request.headers) == {"text": "λ"}
    for change in ({"webhook-id": "msg_2"}, {"webhook-timestamp": str(int(time.time()) + 1)}):
        with pytest.raises(WebhookVerificationError, match="No matching signature"):
            StandardWebhook(SECRET).verify(request.body, {**request.headers, **change})


def test_signature_is_that_of_the_specification():
    """The example of the specification Standard Webhooks."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = make_signature_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("answer", "text", "is_accepted", "is_final"),
    [
        (200, "HTTP 200", True, False),
        (ACCEPT, "HTTP 204", True, False),
        (400, "HTTP 400", False, False),
        (410, "HTTP 410", False, True),
        (500, "HTTP 500", False, False),
        (redirect, "HTTP 307, and redirects are not followed", False, False),
        (close_within_the_body, "HTTP 200", True, False),
        (send_a_huge_body, "HTTP 200", True, False),
    ],
)
def test_status_decides(answer, text, is_accepted, is_final):
    with receiving(answer) as receiver:
        given = post_message(receiver.webhook(), "msg_1", BODY)
        assert [request.path for request in receiver.requests] == ["/hook"]
    assert (given.text, given.is_accepted, given.is_final) == (text, is_accepted, is_final)


@pytest.mark.parametrize("answer", [close_before_the_status, close_within_the_headers, send_no_http])
def test_broken_answer_is_a_failed_attempt(answer):
    with receiving(answer) as receiver:
        given = post_message(receiver.webhook(), "msg_1", BODY)
    assert not given.is_accepted
    assert not given.is_final
    assert given.text.startswith("RemoteProtocolError: ")


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.parametrize("answer", [hang, send_slowly])
def test_time_of_the_whole_attempt_is_limited(answer):
    with receiving(answer) as receiver:
        begin = time.monotonic()
        assert post_message(receiver.webhook(), "msg_1", BODY).text == "no answer within 0 seconds"
        assert time.monotonic() - begin < 1


def test_receiver_that_is_away_is_a_failed_attempt_that_shows_no_secret():
    with receiving() as receiver:
        address = receiver.url
    url = address.replace("http://", "http://ada:hush@").replace("/hook", "/hush?token=hush")
    given = post_message(Webhook(url, b"hush" * 6), "msg_1", BODY)
    assert given.text.startswith("ConnectError: ")
    assert "hush" not in given.text
    assert "hush" not in repr(Webhook(url, b"hush" * 6))


def test_credentials_of_the_url_are_sent():
    with receiving() as receiver:
        receiver.url = receiver.url.replace("http://", "http://ada:p%40ss@")
        assert post_message(receiver.webhook(), "msg_1", json.dumps({})).is_accepted
        assert receiver.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"ada:p@ss").decode()


def test_url_that_cannot_be_used_is_refused_without_showing_it():
    with pytest.raises(SpecError, match="BLN_SEARCH_WEBHOOK_URL: this is no valid URL") as error:
        post.check_url("https://hush..example/\x7f")
    assert "hush" not in str(error.value)
