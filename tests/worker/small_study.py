"""A study of two short trials."""

from __future__ import annotations

from bln_search.specs import parse_study

SMALL_STUDY = """
name: small
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 2, learning_rate: LR}
seeds: [0, 1]
"""


def small_study(rate="0.002"):
    return parse_study(SMALL_STUDY.replace("LR", rate))
