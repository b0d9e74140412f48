"""Studies that are run with the command, and their tables by seed and split, read from the database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import yaml

from tests.data.reviews import make_reviews, write_lines
from tests.end_to_end.commands import call

_TEXTS = (Path(__file__).parent / "studies.yaml").read_text().split("\n---\n")
STUDIES = {yaml.safe_load(text)["name"]: text for text in _TEXTS}
_TRIALS = """
SELECT trial.id, arm, parameters, seed, trial.state, epoch FROM trial
LEFT JOIN checkpoint ON checkpoint.trial_id = trial.id ORDER BY position, trial.id
"""
_EVALUATIONS = """
SELECT trial_id, configuration, estimate, batch_size, condition, split, evaluation.state, loss
FROM evaluation JOIN checkpoint ON checkpoint.id = checkpoint_id ORDER BY evaluation.id
"""


def run_study(name, home):
    """Run a study in a new home with one process; return the command's output as CSV."""
    write_lines(home / "data" / "imdb", make_reviews())
    file = home / f"{name}.yaml"
    file.write_text(STUDIES[name])
    words = ("--workers", "1", "--data", home / "data", "--format", "csv", "--quiet")
    return call("run", file, *words, home=home, check=0).stdout


def read_table(name, home):
    """Entries of a finished study: its points, trials, rows, and what its search of layers found.

    A row has a value for each seed and split, whose order is that of the entry `columns`: the loss, or a state. A point
    of a search space has a number, so that the keys do not depend on sampled values.
    """
    with closing(sqlite3.connect(home / "ledger.sqlite3")) as connection:
        trials, evaluations = connection.execute(_TRIALS).fetchall(), connection.execute(_EVALUATIONS).fetchall()
    entries, points, arms_and_seeds, rows, columns = {}, {}, {}, {}, set()
    for trial, arm, parameters, seed, state, epoch in trials:
        names = points.setdefault(arm, {})
        point = names.setdefault(parameters, f"{arm} #{len(names)}" if len(names) or parameters else arm)
        if parameters is not None:
            entries[f"point {point}"] = json.loads(parameters)
        entries.setdefault(f"trial {point} seed {seed}", []).append([state, epoch])
        arms_and_seeds[trial] = point, seed
    for trial, configuration, estimate, batch_size, condition, split, state, loss in evaluations:
        point, seed = arms_and_seeds[trial]
        key = " ".join(filter(None, ["row", point, configuration, estimate, str(batch_size), condition]))
        columns.add((seed, split))
        rows.setdefault(key, {})[seed, split] = loss if state == "measured" else state
    entries["columns"] = [f"{seed} {split}" for seed, split in sorted(columns)]
    entries |= {key: [values.get(column) for column in sorted(columns)] for key, values in rows.items()}
    return entries | (read_layers(name, home) if "layers" in yaml.safe_load(STUDIES[name]) else {})


def read_layers(name, home):
    """The mean loss of every per-layer configuration, and the confirmed losses of each network."""
    (found,) = json.loads(call("layers", name, "--limit", 1000, "--format", "json", home=home, check=0).stdout)
    entries = {f"layers {row['configuration']}": row["loss"] for row in found["rows"]}
    for network in found["networks"]:
        losses = [network[key] for key in ("apparent", "loss", "uniform_loss", "test_loss", "test_uniform_loss")]
        entries[f"layers confirmed, seed {network['seed']}"] = losses
    return entries
