"""A study with a per-layer search, copies of its ledger, and the progress that a search saves."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import layer_search as worker_layers

STUDY = """
name: layered
data: {name: digits, fraction: 0.4, validation: 325}
model: {name: mlp, widths: [16, 12]}
arms: [{method: bln}, {method: ln}]
seeds: [0, 1]
training: {epochs: 3}
layers: {folds: 2, keep: 40}
"""
BATCHES = [1, 2, 3, 4, 5, 6]
"""Number of evaluated mini-batches after each step of an enumeration."""


def copy_of(home, path):
    """A copy of the ledger with the trained study, without searches and analyses; it shares the checkpoints."""
    with closing(sqlite3.connect(home / "ledger.sqlite3")) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
    with_layers = open_and_upgrade_ledger(f"sqlite:///{path}")
    forget(with_layers)
    return with_layers


def forget(ledger):
    """Delete all searches and analyses."""
    with ledger.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM layer_search")
        connection.exec_driver_sql("DELETE FROM analysis")


def silent(_line):
    pass


def list_searches(ledger, study_id):
    return list(ledger.layer_searches.iter_finished_searches(study_id))


def observe_saves(monkeypatch, observe):
    """Call `observe` with the sums, and whether they are the first of a network, before each save in this process."""
    usual = worker_layers._SearchJob._make_saver

    def make_saver(self, trial, initial):
        save, seen = usual(self, trial, initial), []

        def observe_and_save(sums):
            observe(sums, is_first=not seen)
            seen.append(sums)
            save(sums)

        return observe_and_save

    monkeypatch.setattr(worker_layers._SearchJob, "_make_saver", make_saver)


def count_saved_steps(monkeypatch):
    """For each network the number of mini-batches after each saved step."""
    saved_steps = []

    def record_step(sums, *, is_first):
        if is_first:
            saved_steps.append([])
        saved_steps[-1].append(sums.done)

    observe_saves(monkeypatch, record_step)
    return saved_steps
