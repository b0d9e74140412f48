"""A trial with streams sends a record of each arm of adaptation and order, the same ones again from its checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.execution import trial_evaluation
from bln_search.execution.code_identity import compute_code_identity
from bln_search.execution.messages import EvaluationDone, PhaseProgress, TrialPhase, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = parse_study("""
name: streams
data: {name: digits, fraction: 0.3, validation: 100, standardization: channel}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
training: {epochs: 1}
seeds: [3]
evaluation:
  population: [frozen, moving]
  conditions: [gaussian_noise-3, {name: dim, corruption: contrast, severity: 5}]
stream: {orders: 2, batch_size: 50, order: blocks}
adaptation: [none, {name: none, configuration: F}, {name: none, configuration: B, weight: 0.5}, tent]
""")
(TRIAL,) = list_planned_trial_specs(STUDY)


@pytest.fixture(scope="module")
def streams(messages):
    (done,) = (message for message in messages if isinstance(message, EvaluationDone))
    return done.streams


def test_each_arm_and_order_has_a_record_of_every_test_image_under_every_condition(streams):
    labels = ("none T", "none F", "none B@0.5", "tent F")
    assert [(record.arm, record.order) for record in streams] == [(arm, order) for order in (0, 1) for arm in labels]
    for record in streams:
        assert (record.seed, record.classes, record.outcomes.end) == (3, 10, "")
        assert record.layout.conditions == ("gaussian_noise-3", "dim")
        assert np.bincount(record.layout.condition_of).tolist() == [360, 360]
        assert len(record.layout) == record.outcomes.batches == 16


def test_a_network_that_adapts_nothing_has_the_losses_of_its_evaluation(streams, evaluations):
    """Statistics of the population do not depend on the mini-batch."""
    expected = {
        result.key.condition: result
        for result in evaluations
        if (str(result.key.configuration), result.key.estimate, result.key.split) == ("TT--", "frozen", Split.TEST)
    }
    record = streams[0]
    for number, name in enumerate(record.layout.conditions):
        arrived = record.layout.condition_of == number
        order = np.argsort(record.layout.example_of[arrived])
        np.testing.assert_allclose(
            record.outcomes.losses[arrived][order], expected[name].outcomes.losses, rtol=1e-4, atol=1e-5
        )
        assert (record.outcomes.correct[arrived][order] == expected[name].outcomes.correct).all()


def test_a_trial_repeated_from_its_checkpoint_has_the_same_records(streams, checkpoint, environment, monkeypatch):
    corrupted, make = [], trial_evaluation.make_corrupted_validation_and_test_splits
    monkeypatch.setattr(
        trial_evaluation,
        "make_corrupted_validation_and_test_splits",
        lambda data, condition: corrupted.append(condition.name) or make(data, condition),
    )
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(2, TRIAL, checkpoint), environment, sent.append):
        pass
    (done,) = (message for message in sent if isinstance(message, EvaluationDone))
    for before, again in zip(streams, done.streams, strict=True):
        assert (before.arm, before.order) == (again.arm, again.order)
        assert (before.outcomes.losses == again.outcomes.losses).all()
        assert (before.layout.example_of == again.layout.example_of).all()
    assert corrupted == ["gaussian_noise-3", "dim"]  # once, for evaluation and streams
    progress = [message for message in sent if isinstance(message, PhaseProgress)]
    assert (progress[-1].phase, progress[-1].done) == (TrialPhase.STREAMS, progress[-1].total)


def test_streams_of_a_study_without_conditions_are_clean(environment):
    spec = parse_study("""
name: clean_stream
data: {name: digits, fraction: 0.3, validation: 100}
model: {name: mlp, widths: [4]}
arms: [{method: none}]
training: {epochs: 1}
seeds: [0]
stream: {orders: 1}
""")
    (trial,) = list_planned_trial_specs(spec)
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(3, trial), environment, sent.append):
        pass
    (record,) = sent[-1].streams
    assert (record.arm, record.layout.conditions) == ("none T", ("clean",))


def test_the_code_of_a_study_with_arms_of_adaptation_includes_their_package():
    with_arms, without = (
        compute_code_identity(spec).built_in
        for spec in (
            STUDY,
            parse_study("name: other\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bn}]\n"),
        )
    )
    assert with_arms.keys() - without.keys() == {"bln_search/adaptation"}
