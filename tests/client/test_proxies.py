"""The proxy of the environment, and the servers that NO_PROXY excludes."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from bln_search.client import ServiceError
from bln_search.client.proxies import find_proxy

PROXY = "http://ada:hush@127.0.0.1:3128"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("server", "no_proxy", "is_used"),
    [
        ("http://127.0.0.1:8000", "", True),
        ("http://127.0.0.1:8000", "*", False),
        ("http://127.0.0.1:8000", "localhost, 127.0.0.1", False),
        ("http://127.0.0.1:8000", "127.0.0.0/8", False),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", False),
        ("http://127.0.0.1:8000", "127.0.0.1:9000", True),
        ("http://127.0.0.1:8000", "10.0.0.0/8,::1", True),
        ("http://[::1]:8000", "localhost,::1", False),
        ("http://[::1]:8000", "[::1]", False),
        ("http://[::1]:8000", "[::1]:8000", False),
        ("http://[fd00::5]", "fd00::/8", False),
        ("http://[fd00::5]", "fe80::/10", True),
        ("http://bln.example.org", "example.org", False),
        ("http://bln.example.org", ".example.org", False),
        ("http://bln.example.org", "*.Example.org", False),
        ("http://bln.example.org", "ample.org", True),
        ("http://bln.example.org", "300.1.1.1/99 ::g bln", True),
    ],
)
def test_no_proxy_names_hosts_addresses_and_networks(monkeypatch, server, no_proxy, is_used):
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (find_proxy(urlsplit(server)) is not None) == is_used


def test_the_proxy_of_the_scheme_comes_before_the_one_for_all(monkeypatch):
    monkeypatch.setenv("all_proxy", "other.example.org:1")
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    assert find_proxy(urlsplit("http://host")).url == PROXY
    assert str(find_proxy(urlsplit("https://host"))) == "http://other.example.org:1 of all_proxy"
    assert str(find_proxy(urlsplit("http://host"))) == "http://ada:***@127.0.0.1:3128 of HTTP_PROXY"


@pytest.mark.parametrize("url", ["ftp://ada:hush@host", "http://", "http://ada:hush@host:port", "http://a\nb", "x://"])
def test_what_is_no_proxy_is_refused_with_its_variable(monkeypatch, url):
    monkeypatch.setenv("http_proxy", url)
    with pytest.raises(ServiceError, match=r"http_proxy.*NO_PROXY=host") as error:
        find_proxy(urlsplit("http://host"))
    assert "hush" not in str(error.value)
    assert "\n" not in str(error.value)
