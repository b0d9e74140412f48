"""A training run whose state is restored in another process continues bit for bit, from any step."""

from __future__ import annotations

import random

import pytest

from tests.support.tiers import thinned
from tests.training.interrupted_runs import (
    assert_equal_runs,
    make_run,
    make_trial,
    resume,
    train_all,
    train_to_epoch,
    train_until,
)

IMAGES = """
data: {name: digits, validation: 40}
model: {name: mlp, widths: [12]}
"""
SCHEDULES = "schedule: {kind: cosine}"
RUNS = {
    **{
        f"{method}, every estimate": f"""
{IMAGES}
arms: [{{method: {method}, population: [frozen, epoch, moving]}}]
training: {{epochs: 3, batch_size: 20, {SCHEDULES}}}
"""
        for method in ("bn", "ln", "bln")
    },
    **{
        f"{method}, from the weights": f"""
{IMAGES.replace("]}", "], placement: before}")}
arms: [{{method: {method}}}]
training: {{epochs: 3, batch_size: 20, {SCHEDULES}}}
"""
        for method in ("wn", "normprop", "ap2")
    },
    "mbn, scheduled λ": f"""
{IMAGES}
arms: [{{method: mbn, lambda: {{0: 0.1, 0.4: 0.5, 0.6: 0.9}}, double_forward: true, memory: 4}}]
training: {{epochs: 3, batch_size: 20}}
""",
    "mbn, last step": f"""
{IMAGES}
arms: [{{method: mbn, memory_sources: [memory, last_step, with_mini_batch]}}]
training: {{epochs: 3, batch_size: 20, checkpoint: last}}
""",
    "brn, scheduled bounds": f"""
{IMAGES}
arms: [{{method: brn, r_max: {{0: 1, 0.3: 2, 0.7: 3}}, d_max: {{0: 0, 0.5: 5}}}}]
training: {{epochs: 3, batch_size: 20, optimizer: sgd, learning_rate: 0.1}}
""",
    "sgd with momentum": f"""
{IMAGES}
arms: [{{method: bn}}]
training: {{epochs: 3, batch_size: 20, optimizer: sgd, momentum: 0.9, learning_rate: 0.3, weight_decay: 0.001}}
""",
    "adam with weight decay": f"""
{IMAGES}
arms: [{{method: bln}}]
training: {{epochs: 3, batch_size: 20, weight_decay: 0.01, epsilon: 0.001, schedule: {{kind: exponential, gamma: 0.9}}}}
""",
    "fixed order, last epoch": f"""
{IMAGES}
arms: [{{method: bn, population: [frozen, epoch]}}]
training: {{epochs: 3, batch_size: 20, order: fixed, checkpoint: last, epoch_splits: [validation, test]}}
""",
    "augmentation": """
data: {name: cifar10, validation: 40}
model: {name: lenet}
arms: [{method: bn, population: [frozen, moving]}]
training: {epochs: 3, batch_size: 20, augmentation: {crop: 4, flip: true, noise: 0.1}}
""",
    "initialization": f"""
{IMAGES}
arms: [{{method: bn}}]
training: {{epochs: 3, batch_size: 20, initialization: {{statistics: bn, gain: uniform}}}}
""",
    "recurrent with dropout": """
data: {name: imdb, validation: 40}
model: {name: rnn, widths: [4], embedding: 3, dense: 3, dropout: 0.2, recurrent_dropout: 0.2, normalize: cells}
arms: [{method: bn, population: [frozen, epoch, moving]}]
training: {epochs: 3, batch_size: 20}
""",
    "LSTM with a sparse embedding": """
data: {name: imdb, validation: 40}
model: {name: lstm, widths: [4], embedding: 3, dense: 3, dropout: 0.2}
arms: [{method: bln}]
training: {epochs: 3, batch_size: 5}
""",
    **{
        f"{method}, fused kernels": f"""
{IMAGES}
arms: [{{method: {method}}}]
training: {{epochs: 3, batch_size: 20, fused_norms: true}}
"""
        for method in ("bln", "mbn", "brn")
    },
    "no normalization": f"""
{IMAGES}
arms: [{{method: none}}]
training: {{epochs: 3, batch_size: 20}}
""",
    "bfloat16": f"""
{IMAGES}
arms: [{{method: bn}}]
training: {{epochs: 3, batch_size: 20, precision: bf16}}
""",
}
EXAMPLES = 110


@pytest.fixture(scope="module")
def uninterrupted():
    """Complete runs by name, each trained once."""
    runs = {}

    def train(name):
        if name not in runs:
            runs[name] = train_all(make_trial(RUNS[name]), EXAMPLES)
        return runs[name]

    return train


@pytest.mark.parametrize("name", thinned(RUNS, 3))
def test_a_run_continues_from_the_middle_of_an_epoch(name, uninterrupted):
    trial, expected = make_trial(RUNS[name]), uninterrupted(name)
    run, trained = resume(trial, EXAMPLES, train_until(trial, EXAMPLES, expected.steps + 2))
    assert_equal_runs(run, expected)
    assert trained == [2, 3]


@pytest.mark.parametrize("name", thinned(RUNS, 3, start=1))
def test_a_run_continues_after_an_epoch(name, uninterrupted):
    trial, expected = make_trial(RUNS[name]), uninterrupted(name)
    run, trained = resume(trial, EXAMPLES, train_to_epoch(trial, EXAMPLES, 2))
    assert_equal_runs(run, expected)
    assert trained == [3]


def test_a_run_whose_last_epoch_is_stored_trains_no_further_one(uninterrupted):
    name = "mbn, scheduled λ"
    trial = make_trial(RUNS[name])
    run, trained = resume(trial, EXAMPLES, train_to_epoch(trial, EXAMPLES, 3))
    assert_equal_runs(run, uninterrupted(name))
    assert trained == []
    assert {layer.lambda_ for layer in run.layers.values()} == {0.9}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_interrupted_again_and_again_equals_the_complete_one(name, uninterrupted):
    trial, expected = make_trial(RUNS[name]), uninterrupted(name)
    draw = random.Random(name)
    moments = sorted(draw.sample(range(1, 3 * expected.steps + 1), 5))
    content = None
    for moment in moments:
        content = train_until(trial, EXAMPLES, moment, content)
    run, _ = resume(trial, EXAMPLES, content)
    assert_equal_runs(run, expected)


def test_a_diverged_run_diverges_again():
    trial = make_trial(
        f"{IMAGES}\narms: [{{method: none}}]\ntraining: {{epochs: 3, optimizer: sgd, learning_rate: 1.0e+38}}"
    )
    expected = train_all(trial, EXAMPLES)
    assert expected.result.diverged is not None
    run, _ = resume(trial, EXAMPLES, train_until(trial, EXAMPLES, 1))
    assert run.result.diverged == expected.result.diverged


def test_the_duration_of_an_interrupted_epoch_excludes_the_interruption(monkeypatch):
    trial = make_trial(RUNS["bn, every estimate"])
    now = 0.0
    monkeypatch.setattr("bln_search.training.epoch_progress.time.perf_counter", lambda: now)
    run = make_run(trial, EXAMPLES)
    run.progress.start_clock()
    now = 5.0
    run.progress.earlier_seconds = 2.0
    assert run.progress.seconds == 7.0
