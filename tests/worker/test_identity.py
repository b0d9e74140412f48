"""A worker is known by host, process and start."""

from __future__ import annotations

import subprocess
import sys

import psutil

from bln_search.worker.identity import is_alive, own_name


def test_this_process_is_alive():
    assert is_alive(own_name())


def test_a_process_that_ended_is_not_nor_is_another_with_its_number():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    host = own_name().split("/")[0]
    name = f"{host}/{child.pid}/{psutil.Process(child.pid).create_time():.2f}"
    assert is_alive(name)
    assert not is_alive(f"{host}/{child.pid}/1.00")
    child.communicate(b"\n", timeout=20)
    assert not is_alive(name)


def test_on_another_machine_nobody_can_know():
    assert is_alive("elsewhere/1/0.00")
