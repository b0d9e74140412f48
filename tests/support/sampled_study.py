"""Complete studies of a search space."""

from __future__ import annotations

from bln_search.specs import parse_study
from bln_search.specs.trial import make_full_trial_spec
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


SCHEDULES = """
name: NAME
data: {name: digits}
model: {name: mlp, widths: [8]}
arms: [{method: mbn}]
seeds: [0]
space: {arm.lambda: {kind: schedule, at: [0, 0.5], low: 0, high: 1}}
search: {sampler: random, trials: 2}
"""


def complete_schedule_search(world, name):
    """A complete study of two schedules that a sampler has suggested."""
    spec = parse_study(SCHEDULES.replace("NAME", name))
    number = world.ledger.queue.submit_study(spec, "ada").study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    for first, second in ((0.1, 0.9), (0.8, 0.2)):
        point = {"arm.lambda": {"kind": "steps", "steps": {"0": first, "0.5": second}}}
        trial = make_full_trial_spec(spec, spec.arms[0], point, 0)
        for added in world.ledger.trials.add_trials_of_new_point(number, [trial]):
            finish_trial(world.ledger, added)
    world.ledger.studies.finish_run(number, runner="host/1/0", exhausted=True)
    return number
