"""The configuration of nginx passes on what the service needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from bln_search.settings import Settings
from tests.docs.pages import DOCS, PAGES, blocks, written

FILE = DOCS / "nginx" / "bln-search.conf"
BARE = re.sub(r"#.*", "", written(FILE))


def directives(name):
    """The values of a directive."""
    return re.findall(rf"^\s*{name} +([^;]*);", BARE, re.MULTILINE)


def test_requests_are_passed_to_the_service_with_a_host_that_the_page_sets():
    assert set(directives("proxy_pass")) == {"http://127.0.0.1:8000"}
    assert "Host $host" in directives("proxy_set_header")
    (name,) = set(directives("server_name"))
    text = "\n".join(block.text for block in blocks(PAGES["nginx.md"]))
    (hosts,), (composed,) = re.findall(r"BLN_SEARCH_HOSTS='(.*)'", text), re.findall(r"'HOSTS=(.*)'", text)
    assert name in json.loads(hosts)
    assert json.loads(hosts) == json.loads(composed)


def test_bodies_up_to_the_limits_of_the_service_pass():
    limits = [int(size.removesuffix("m")) * 2**20 for size in directives("client_max_body_size")]
    needed = [Settings.model_fields[name].default for name in ("largest_body", "largest_results")]
    assert all(limit >= size for limit, size in zip(limits, needed, strict=True))
    assert BARE.index("location = /api/v1/studies/results") > BARE.index("client_max_body_size")


def test_a_stream_is_not_cut_between_two_lines_and_metrics_are_not_public():
    from service.event_stream import _KEEP_ALIVE_SECONDS

    (seconds,) = directives("proxy_read_timeout")
    assert int(seconds.removesuffix("s")) > 2 * _KEEP_ALIVE_SECONDS
    assert f"every {_KEEP_ALIVE_SECONDS:.0f} seconds" in written(PAGES["nginx.md"])
    assert re.search(r"location = /metrics \{\s*deny all;\s*\}", BARE)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not here")
def test_nginx_accepts_it(tmp_path):
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bln.example.org", "-days", "1"]
    files = ["-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem"]
    subprocess.run([*words, *files], check=True, capture_output=True)
    text = written(FILE).replace("/etc/ssl/bln.example.org", str(tmp_path))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in kinds)
    http = f"http {{\naccess_log off;\n{folders}{text}}}\n"
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\nevents {{}}\n{http}")
    command = ["nginx", "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "errors"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
