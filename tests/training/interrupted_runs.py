"""Training runs that end after some step, and runs that continue from the stored state of such a run."""

from __future__ import annotations

from dataclasses import astuple, replace

import torch

from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.norms.moment_collection import flatten_moments_to_tensors
from bln_search.specs import parse_study
from bln_search.specs.trial import make_representative_trial_specs
from bln_search.training import TrainingRun
from bln_search.training.checkpoint import weights_and_buffers_by_name
from bln_search.training.seeding import reproducible_torch
from bln_search.training.training_state import (
    collect_training_state,
    decode_training_state,
    encode_training_state,
    restore_training_state,
)

FINGERPRINT = {"trial": "of the test"}


class Interrupted(Exception):
    """The process ends."""


def make_trial(sections):
    (trial,) = make_representative_trial_specs(parse_study(f"name: x\nseeds: [3]\n{sections}"))[:1]
    return trial


def make_run(trial, examples, **options):
    """A new run of a trial on made-up data, as another process makes it."""
    data = make_synthetic_prepared_data(trial.data, examples)
    network = build_initialized_network(trial, data)
    return TrainingRun.of_trial(network, data, trial, measures_running_loss=True, **options)


def train_all(trial, examples):
    """Train without an interruption."""
    with reproducible_torch(trial.seed, threads=1):
        run = make_run(trial, examples)
        for _ in run.train_epochs():
            pass
    return run


def train_until(trial, examples, step, content=None):
    """Train from the stored state, if given, to a step that is counted from the start; return the content of a file."""
    contents = []
    with reproducible_torch(trial.seed, threads=1):
        run = make_run(trial, examples)
        if content is not None:
            restore_training_state(run, decode_training_state(content, FINGERPRINT))
        left = step - len(run.result.epochs) * run.steps - run.progress.step

        def interrupt():
            nonlocal left
            left -= 1
            if left == 0:
                contents.append(encode_training_state(collect_training_state(run), FINGERPRINT))
                raise Interrupted

        run.after_step = interrupt
        try:
            for _ in run.train_epochs():
                pass
        except Interrupted:
            return contents[0]
    raise AssertionError("the run has fewer steps")


def train_to_epoch(trial, examples, epoch):
    """Train to the end of an epoch; return the content of a file."""
    with reproducible_torch(trial.seed, threads=1):
        run = make_run(trial, examples)
        for record in run.train_epochs():
            if record.epoch == epoch:
                return encode_training_state(collect_training_state(run), FINGERPRINT)
    raise AssertionError("the run has fewer epochs")


def resume(trial, examples, content):
    """Train the rest; returns the run and the epochs that it yielded."""
    with reproducible_torch(trial.seed, threads=1):
        run = make_run(trial, examples)
        torch.rand(7)  # another process has drawn other numbers
        restore_training_state(run, decode_training_state(content, FINGERPRINT))
        return run, [record.epoch for record in run.train_epochs()]


def assert_equal_runs(run, expected):
    """Every result and every value that could influence one is equal bit for bit; durations are not compared."""
    epochs, expected_epochs = (
        [astuple(replace(record, seconds=0.0)) for record in one.result.epochs] for one in (run, expected)
    )
    assert epochs == expected_epochs
    assert run.result.diverged == expected.result.diverged
    assert (run.result.kept_epoch, run.result.kept_validation_loss) == (
        expected.result.kept_epoch,
        expected.result.kept_validation_loss,
    )
    assert_equal_tensors(run.result.weights, expected.result.weights)
    assert run.result.moments.keys() == expected.result.moments.keys()
    for estimate, moments in expected.result.moments.items():
        assert_equal_tensors(
            flatten_moments_to_tensors(run.result.moments[estimate]), flatten_moments_to_tensors(moments)
        )
    assert_equal_tensors(weights_and_buffers_by_name(run.network), weights_and_buffers_by_name(expected.network))
    assert run.running_loss.mean == expected.running_loss.mean
    tensors, numbers = ({**collect_training_state(one).tensors} for one in (run, expected))
    generators = {name for name in tensors if name.startswith("global generator")}
    assert_equal_tensors(
        *({name: value for name, value in one.items() if name not in generators} for one in (tensors, numbers))
    )


def assert_equal_tensors(values, expected):
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(values[name], value), name
