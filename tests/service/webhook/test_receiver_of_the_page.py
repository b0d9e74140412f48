"""The receiver of the page about integrations, run as it stands."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import uvicorn

from bln_search.settings import Settings
from service.webhook.deliverer import deliver_next_message, find_webhook
from service.webhook.post import Webhook, post_message
from tests.docs.pages import PAGES, blocks
from tests.service.webhook.test_deliverer import cancel_new_study
from tests.support.webhook_receiver import SECRET


@contextmanager
def serving(app):
    """The application on a free port; its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        finally:
            server.should_exit = True
            thread.join()


def test_receiver_has_at_most_ten_lines_and_verifies_messages(world, monkeypatch, capsys):
    (block,) = [block for block in blocks(PAGES["integrations.md"], "python") if block.title == "receiver.py"]
    assert sum(bool(line.strip()) for line in block.text.splitlines()) <= 10
    monkeypatch.setenv("BLN_SEARCH_WEBHOOK_SECRET", SECRET)
    namespace = {"__name__": "receiver"}
    exec(compile(block.text, "receiver.py", "exec", dont_inherit=True), namespace)
    world.ledger.deliveries.start_announcing()
    study_id = cancel_new_study(world.ledger, "mine")
    with serving(namespace["app"]) as url:
        webhook = find_webhook(Settings(webhook_url=url, webhook_secret=SECRET))
        assert deliver_next_message(world.ledger, webhook)
        assert post_message(Webhook(url, b"another key" * 3), "msg_1", "{}").text == "HTTP 500"
    assert world.ledger.deliveries.list_deliveries(study_id)[0].answer == "HTTP 200"
    assert capsys.readouterr().out == f"study.cancelled Study mine ({study_id}) of ada: cancelled.\n"
