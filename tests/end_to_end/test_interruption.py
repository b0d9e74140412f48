"""Interrupted at any moment, the same command goes on, and the final table equals the uninterrupted one."""

from __future__ import annotations

import csv
import os
import random
import signal
import sqlite3
import time
from contextlib import closing

import psutil
import pytest

from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.end_to_end.commands import call, start

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("interruption")]

STUDY = """
name: interrupted
data: {name: digits}
model: {name: mlp, widths: [32]}
arms: [{method: bln, population: [frozen, epoch]}, {method: bn}]
training: {epochs: 8}
seeds: [0, 1]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "interrupted.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def uninterrupted(study, tmp_path_factory):
    home = tmp_path_factory.mktemp("uninterrupted")
    started = time.monotonic()
    table = call("run", study, "--format", "csv", home=home, check=0).stdout
    return table, time.monotonic() - started


def lives(process):
    """A zombie does not: it only waits for its parent to take note."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def no_process_left(family):
    deadline = time.monotonic() + 20
    while any(lives(process) for process in family):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def assert_whole(home, table, study):
    finished = call("run", study, "--format", "csv", home=home, check=0)
    assert finished.stdout == table
    ledger = open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    recorded = ledger.results.list_clean_evaluations(1)
    keys = [(one.arm, one.seed, one.evaluation.key) for one in recorded]
    assert len(keys) == len(set(keys)) == 2 * 2 * (31 + 4)
    numbers = [event.number for event in ledger.events.list_events(1)]
    assert numbers == list(range(1, len(numbers) + 1))
    ledger.close()


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments(seed, study, uninterrupted, tmp_path):
    table, seconds = uninterrupted
    rng = random.Random(seed)
    for _ in range(2):
        running = start("run", study, home=tmp_path)
        time.sleep(rng.uniform(0.1, seconds))
        family = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
        running.kill()
        running.communicate()
        assert no_process_left(family), "worker processes outlived their driver"
    assert_whole(tmp_path, table, study)


def has_finished_trial(home):
    """Read without a lock and in no time: on a busy machine a run ends while a ledger is opened."""
    file = home / "ledger.sqlite3"
    if not file.exists():
        return False
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute("SELECT 1 FROM trial WHERE state = 'finished'").fetchone() is not None
        except sqlite3.OperationalError:  # the tables are being created
            return False


def wait_for_a_finished_trial(home, running):
    deadline = time.monotonic() + 240
    while not has_finished_trial(home):
        assert running.poll() is None, running.communicate()[1]
        if time.monotonic() > deadline:
            running.send_signal(signal.SIGTERM)
            pytest.fail(f"no trial has finished: {running.communicate(timeout=60)[1]}")
        time.sleep(0.05)


def list_states(home):
    output = call("list", "--format", "csv", home=home, check=0).stdout
    return [(row["id"], row["state"], row["trials"]) for row in csv.DictReader(output.splitlines())]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_stopped_by_a_signal(number, study, uninterrupted, tmp_path):
    table, _ = uninterrupted
    running = start("run", study, home=tmp_path)
    wait_for_a_finished_trial(tmp_path, running)
    running.send_signal(number)
    _, said = running.communicate(timeout=240)
    assert running.returncode == 130
    assert "finished trials are kept" in said
    assert f"interrupted by {number.name}" in said
    assert "Traceback" not in said
    assert list_states(tmp_path) == [("1", "interrupted", "4")]
    assert_whole(tmp_path, table, study)


def test_signals_to_the_whole_process_group_end_a_run_as_one_to_its_driver(study, uninterrupted, tmp_path):
    """A closed terminal and a batch system send their signals to every process."""
    table, _ = uninterrupted
    for number in (signal.SIGHUP, signal.SIGUSR1):
        running = start("run", study, home=tmp_path, process_group=0)
        for line in running.stderr:
            if "training" in line:
                break
        os.killpg(running.pid, number)
        _, said = running.communicate(timeout=240)
        assert running.returncode == 130, said
        assert "failed" not in said
    assert_whole(tmp_path, table, study)


def test_a_killed_run_is_listed_as_interrupted_at_once(study, uninterrupted, tmp_path):
    table, _ = uninterrupted
    running = start("run", study, home=tmp_path)
    wait_for_a_finished_trial(tmp_path, running)
    running.kill()
    running.wait()  # its workers may still hold its outputs
    assert list_states(tmp_path) == [("1", "interrupted", "4")]
    running.communicate()
    assert_whole(tmp_path, table, study)


def test_a_run_whose_parent_ignores_hangups_continues_after_one(study, uninterrupted, tmp_path):
    """As under nohup."""
    table, _ = uninterrupted
    running = start("run", study, "--format", "csv", home=tmp_path, ignored=(signal.SIGHUP,))
    wait_for_a_finished_trial(tmp_path, running)
    running.send_signal(signal.SIGHUP)
    printed, _ = running.communicate(timeout=240)
    assert (running.returncode, printed) == (0, table)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_worker_names_the_signal_that_ends_it(number, tmp_path):
    running = start("worker", home=tmp_path)
    deadline = time.monotonic() + 240
    while not (tmp_path / "ledger.sqlite3").exists() or "/" not in call("workers", home=tmp_path).stdout:
        assert time.monotonic() < deadline
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert number.name in said


def test_two_at_once_do_not_run_the_same_study(tmp_path):
    long = tmp_path / "long.yaml"
    long.write_text(STUDY.replace("epochs: 8", "epochs: 50000"))
    first = start("run", long, home=tmp_path)
    for line in first.stderr:
        if "training" in line:
            break
    second = call("run", long, home=tmp_path, check=1)
    assert "runs this study" in second.stderr
    assert first.poll() is None
    first.terminate()
    first.communicate(timeout=240)
    assert first.returncode == 130
