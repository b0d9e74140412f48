"""A study of one short trial, for a worker of the queue."""

from __future__ import annotations

from bln_search.specs import parse_study

STUDY = """
name: NAME
data: {name: DATA, fraction: 0.2}
model: {name: mlp, widths: [4]}
arms: [{method: bln}]
seeds: [0]
training: {epochs: 1, batch_size: BATCH}
"""


def worker_study(name, data="digits", batch="25"):
    return parse_study(STUDY.replace("NAME", name).replace("DATA", data).replace("BATCH", batch))
