"""A complete study of a search space."""

from __future__ import annotations

from bln_search.specs import parse_study
from tests.support.service_world import finish_trial

SEARCHED = """
name: NAME
title: MBN, effect of λ
data: {name: digits}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
seeds: [0, 1]
space: {training.learning_rate: {kind: choice, values: [0.012341, 0.012344]}}
search: {sampler: grid}
"""


def complete_sampled_study(world, name):
    number = world.ledger.queue.submit_study(parse_study(SEARCHED.replace("NAME", name)), "ada").study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    for trial in world.ledger.trials.list_claimable_trials(number):
        finish_trial(world.ledger, trial)
    world.ledger.studies.finish_run(number, runner="host/1/0")
    return number
