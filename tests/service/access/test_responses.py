"""What responses and logs reveal: hosts, headers, secrets, the sign-in page."""

from __future__ import annotations

import logging
import re

from bln_search.core.enums import Scope


def test_logs_and_responses_contain_no_secret(world, caplog):
    caplog.set_level(logging.DEBUG)
    secret = world.secrets["ada", Scope.WRITE]
    texts = []
    for client in (world.client(), world.client(None, Authorization=f"Bearer {secret}x")):
        for path in (
            "/api/v1/studies",
            "/api/v1/tokens",
            "/metrics",
            f"/api/v1/studies/{secret}",
            f"/nowhere/{secret}x",
        ):
            response = client.get(path)
            texts.append(response.text.replace(f"/{secret}", ""))  # an address is told back
    assert not any(secret in text for text in texts)
    assert not any(secret in record.getMessage() for record in caplog.records if record.name.startswith("service"))
    assert "sha256" not in world.client().get("/api/v1/tokens").text


def test_unknown_host_name_is_rejected(world):
    for host in ("evil.example", "testserver.evil.example", "", "testserver@evil"):
        assert world.client(None, Host=host).get("/healthz").status_code == 400, host
    for host in ("testserver", "testserver:8000", "TESTSERVER"):
        assert world.client(None, Host=host).get("/healthz").status_code == 200, host


def test_every_spelling_of_an_ipv6_address_is_accepted(world):
    world.context.settings = world.settings.model_copy(update={"hosts": ("[2001:db8::5]",)})
    for host in ("[2001:db8::5]", "[2001:DB8:0:0:0:0:0:5]:8000"):
        assert world.client(None, Host=host).get("/healthz").status_code == 200, host
    assert world.client(None, Host="[2001:db8::6]").get("/healthz").status_code == 400


def test_security_headers_are_set(world):
    response = world.client().get("/api/v1/tokens", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in response.headers
    page = world.client(None).get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"


def test_sign_in_page_loads_nothing_from_other_hosts(world):
    anonymous = world.client(None)
    page = anonymous.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for address in re.findall(r'(?:href|src)="([^"]+)"', page.text):
        assert address.startswith(("/", "#")), "nothing comes from elsewhere"
        assert not address.startswith("/static") or anonymous.get(address).status_code == 200
    assert "<script>" not in page.text
    assert anonymous.get("/static/../app.py").status_code == 404
    assert anonymous.get("/static/%2e%2e/app.py").status_code == 404
