"""A receiver of messages on this machine, which answers as a test wants."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bln_search.settings import Settings
from service.webhook.deliverer import find_webhook

SECRET = "whsec_" + "c2VjcmV0" * 4
ACCEPT = 204


@dataclass
class Request:
    """A message as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message_id(self):
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """Answers of the next requests, and the requests so far. An answer is a status, or a function of the handler."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    answers: list = field(default_factory=list)
    default: int = ACCEPT

    def webhook(self, **settings):
        return find_webhook(Settings(webhook_url=self.url, webhook_secret=SECRET, **settings))


@contextmanager
def receiving(*answers, default=ACCEPT):
    """A receiver that gives these answers, then `default`."""
    receiver = Receiver(answers=list(answers), default=default)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.answers.pop(0) if receiver.answers else receiver.default
            receiver.requests.append(Request(self.path, headers, body))
            if callable(answer):
                answer(self)
                return
            self.send_response(answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
