"""The client and servers that are unreachable, slow or foreign."""

from __future__ import annotations

import http.server
import json
import threading
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.client import Client, ServiceError
from bln_search.client.stream import iter_server_sent_events
from bln_search.ranking.analysis import Analysis


class Other(http.server.BaseHTTPRequestHandler):
    """Something else than bln-search."""

    def do_GET(self):
        status = 404 if "404" in self.path else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def answer(self, content, *, is_problem):
        """Send a document as JSON; a problem has the status 404."""
        self.send_response(404 if is_problem else 200)
        self.send_header("Content-Type", "application/problem+json" if is_problem else "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_arguments):
        """Nothing."""


class NotYet(Other):
    """A service whose workers have not worked the analysis out before it was asked for `after` times."""

    requests = 0
    after = 3

    def do_GET(self):
        type(self).requests += 1
        ready = self.requests > self.after
        problem = {"type": "urn:bln-search:problem:not-analysed", "detail": "not yet", "errors": []}
        body = {"analysis": Analysis().model_dump(mode="json")} if ready else problem
        self.answer(body, is_problem=not ready)


@contextmanager
def serving(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))  # seconds until it sees that it shall stop
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def foreign_server():
    with serving(Other) as address:
        yield address


def test_client_waits_for_an_analysis_within_its_patience():
    with serving(NotYet) as address, Client(address, "bln_x") as client:
        assert client.analysis(1) is None
        assert NotYet.requests == 1
        assert client.analysis(1, wait=0.01) is None
        assert client.analysis(1, wait=30) == Analysis()
        assert NotYet.requests == 4


def test_server_of_another_program_is_one_clear_error(foreign_server):
    with Client(foreign_server, "bln_x") as client:
        with pytest.raises(ServiceError, match="JSON"):
            client.study(1)
        with pytest.raises(ServiceError, match="answered 404"):
            client.study(404)
        with pytest.raises(ServiceError, match=r"no study 'No Such'.*`bln-search list --server http"):
            client.study("No Such")


EVENTS = st.lists(
    st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3).map(
        lambda data: {"number": 1, **data}
    )
)


@given(EVENTS, st.integers(0, 10_000))
def test_broken_stream_yields_only_complete_events(events, cut):
    """Every event that is given is one that was sent, in order, whole."""
    text = "retry: 1000\n\n" + "".join(
        f"id: 1\nevent: epoch\ndata: {json.dumps(event)}\n\n: still here\n\n" for event in events
    )
    actual = list(iter_server_sent_events(text[: min(cut, len(text))].split("\n")))
    assert actual == events[: len(actual)]
    if cut >= len(text):
        assert actual == events


def test_stream_yields_none_at_its_end():
    lines = ["id: 1", "event: epoch", "data: {}", "", "event: end", "data: {}", ""]
    assert list(iter_server_sent_events(lines)) == [{}, None]


def test_comments_tell_that_there_is_no_event():
    comments = []
    lines = ["retry: 1000", "", ": still here", "", "id: 1", "event: epoch", "data: {}", "", ": still here", ""]
    assert list(iter_server_sent_events(lines, lambda: comments.append("idle"))) == [{}]
    assert comments == ["idle"] * 2


class Changing(Other):
    """A table that is another one with each page."""

    requests = 0

    def do_GET(self):
        type(self).requests += 1
        first = "cursor" not in self.path
        page = {"ranked_on": "validation", "rows": [], "next_cursor": "x"}
        problem = {"type": "urn:bln-search:problem:no-such-page", "detail": "gone", "errors": []}
        self.answer(page if first else problem, is_problem=not first)


def test_leaderboard_that_keeps_changing_raises_an_error(monkeypatch):
    pauses = []
    monkeypatch.setattr("bln_search.client.results.time.sleep", pauses.append)
    raises_error = pytest.raises(ServiceError, match="study 1 changed 5 times")
    with serving(Changing) as address, Client(address, "bln_x") as client, raises_error:
        client.leaderboard(1)
    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert Changing.requests == 10


class Numbers(Other):
    """Study 5 is named `mine`; study 1 is named `5`, as another is `7`."""

    def do_GET(self):
        studies = [{"id": 1, "name": "5", "owner": "ada"}, {"id": 2, "name": "7", "owner": "ada"}]
        path = self.path.removeprefix("/api/v1").split("?")[0]
        content = {
            "/studies/5": {"id": 5, "name": "mine"},
            "/studies/2": studies[1],
            "/studies": {"items": studies},
            "/session": {"account": "ada"},
        }.get(path)
        answer = {"detail": "no such", "errors": []} if content is None else {"next_cursor": None, **content}
        self.answer(answer, is_problem=content is None)


def test_digits_identify_a_study_by_number_before_name():
    with serving(Numbers) as address, Client(address, "bln_x") as client:
        assert client.study("5")["name"] == client.study(5)["name"] == "mine"
        assert client.study("7")["id"] == 2
        with pytest.raises(ServiceError):
            client.study(7)
