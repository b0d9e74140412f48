"""Names of workers: host, process, start and PID namespace."""

from __future__ import annotations

import shutil
import subprocess
import sys

import psutil
import pytest

from bln_search.core import process_identity as identity
from bln_search.core.process_identity import may_be_alive, name_of_this_process


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    end(process)


def end(child):
    if child.poll() is None:
        child.communicate(b"\n", timeout=20)


def name_of(child):
    host, _, start = name_of_this_process().split("/")
    return f"{host}/{child.pid}/{identity._start_ticks_of_process(child.pid)}-{start.partition('-')[2]}"


def test_this_process_is_alive():
    assert may_be_alive(name_of_this_process())


def test_ended_process_is_not_alive_nor_its_reused_id(child):
    name = name_of(child)
    assert may_be_alive(name)
    host, number, start = name.split("/")
    assert not may_be_alive(f"{host}/{number}/1-{start.partition('-')[2]}")
    end(child)
    assert not may_be_alive(name)


def test_setting_the_clock_does_not_change_names(child, monkeypatch):
    name, worker_name = name_of(child), name_of_this_process()
    real = psutil.boot_time
    monkeypatch.setattr(psutil, "boot_time", lambda: real() + 1)
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: real() + 1, raising=False)
    assert may_be_alive(name)
    assert name_of_this_process() == worker_name


@pytest.mark.parametrize("error", [FileNotFoundError(2, ""), ProcessLookupError(3, ""), psutil.NoSuchProcess(1)])
def test_a_process_that_proc_hides_may_be_alive_until_it_ends(child, monkeypatch, error):
    """As processes of other users where /proc is mounted with hidepid=2."""

    def fail(_pid):
        raise error

    name = name_of(child)
    monkeypatch.setattr(identity, "_read_status_fields", fail)
    assert may_be_alive(name)
    end(child)
    assert not may_be_alive(name)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="Linux")
@pytest.mark.parametrize("mode", ["hidepid=1", "hidepid=2", "hidepid=4"])
def test_a_process_of_another_user_may_be_alive_where_proc_hides_it(child, mode):
    """The answer of another user, in a mount namespace of its own."""
    code = "import os; from bln_search.core.process_identity import may_be_alive; os.setuid(65534); "
    code += f"print(may_be_alive({name_of(child)!r}))"
    command = f'mount -t proc -o {mode} proc /proc && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, sys.executable, code], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(done.stderr)
    assert done.stdout == "True\n"


def test_worker_on_another_machine_may_be_alive():
    assert may_be_alive("elsewhere/1/0.00")


def test_worker_in_another_namespace_may_be_alive(monkeypatch):
    """As in two containers that have the name of their host, or behind a new start of the machine."""
    name = name_of_this_process()
    monkeypatch.setattr(identity, "_pid_namespace_digest", lambda: "elsewhere")
    assert may_be_alive(name.replace(name.split("/")[1], "999999999"))


def test_name_of_an_earlier_version_is_parsed(child):
    host = name_of_this_process().split("/")[0]
    name = f"{host}/{child.pid}/{psutil.Process(child.pid).create_time():.2f}"
    assert may_be_alive(name)
    assert not may_be_alive(f"{host}/{child.pid}/1.00")
    end(child)
    assert not may_be_alive(name)


@pytest.mark.slow
def test_start_time_by_clock_without_ticks(child, monkeypatch, tmp_path):
    monkeypatch.setattr(identity, "_OWN_STATUS", tmp_path / "none")
    name = name_of(child)
    assert may_be_alive(name)
    end(child)
    assert not may_be_alive(name)
