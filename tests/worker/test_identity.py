"""A worker is known by host, process, start and environment."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from bln_search.worker import identity
from bln_search.worker.identity import is_alive, own_name


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    end(process)


def end(child):
    if child.poll() is None:
        child.communicate(b"\n", timeout=20)


def name_of(child):
    host, _, start = own_name().split("/")
    return f"{host}/{child.pid}/{identity._start_time(child.pid)}-{start.partition('-')[2]}"


def test_this_process_is_alive():
    assert is_alive(own_name())


def test_a_process_that_ended_is_not_nor_is_another_with_its_number(child):
    name = name_of(child)
    assert is_alive(name)
    host, number, start = name.split("/")
    assert not is_alive(f"{host}/{number}/1-{start.partition('-')[2]}")
    end(child)
    assert not is_alive(name)


def test_the_clock_may_be_set_meanwhile(child, monkeypatch):
    name, own = name_of(child), own_name()
    real = psutil.boot_time
    monkeypatch.setattr(psutil, "boot_time", lambda: real() + 1)
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: real() + 1, raising=False)
    assert is_alive(name)
    assert own_name() == own


def test_on_another_machine_nobody_can_know():
    assert is_alive("elsewhere/1/0.00")


def test_where_processes_have_other_numbers_nobody_can_know(monkeypatch):
    """As in two containers that have the name of their host, or behind a new start of the machine."""
    name = own_name()
    monkeypatch.setattr(identity, "_pid_namespace", lambda: "elsewhere")
    assert is_alive(name.replace(name.split("/")[1], "999999999"))


def test_a_name_of_an_earlier_version_is_understood(child):
    host = own_name().split("/")[0]
    name = f"{host}/{child.pid}/{psutil.Process(child.pid).create_time():.2f}"
    assert is_alive(name)
    assert not is_alive(f"{host}/{child.pid}/1.00")
    end(child)
    assert not is_alive(name)


def test_where_the_system_counts_no_ticks_the_clock_serves(child, monkeypatch, tmp_path):
    monkeypatch.setattr(identity, "_OWN_STATUS", tmp_path / "none")
    name = name_of(child)
    assert is_alive(name)
    end(child)
    assert not is_alive(name)
