"""Hosts of addresses."""

from __future__ import annotations

import pytest

from bln_search.core.urls import format_url_host, is_loopback_host


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.0.0.9", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("box", False),
        ("", False),
    ],
)
def test_loopback_hosts_are_recognized(host, loopback):
    assert is_loopback_host(host) is loopback


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("2001:DB8:0:0::5", "[2001:db8::5]"),
        ("10.0.0.1", "10.0.0.1"),
        ("Box.Example", "box.example"),
        ("*", "*"),
    ],
)
def test_host_is_written_as_browsers_do(host, written):
    assert format_url_host(host) == written
