"""Summaries of arms equal loops over their streams; replicates are networks, or the orders of one."""

from dataclasses import replace

import numpy as np
import pytest

from bln_search.core.errors import DataError
from bln_search.core.stream_outcomes import StreamLayout, StreamOutcomes, StreamRecord
from bln_search.ranking.streams.arm_summary import StreamScore, score_replicates, summarize_arms
from bln_search.ranking.streams.calibration_error import expected_calibration_error


def make_record(arm: str, seed: int, order: int, *, end: str = "", passes: int = 1) -> StreamRecord:
    generator = np.random.default_rng([len(arm), seed, order])
    places = [(condition, example) for condition in range(2) for example in range(20) for _ in range(passes)]
    stream = [places[i] for i in generator.permutation(len(places))]
    n = len(stream)
    layout = StreamLayout(
        ("a", "b"), np.array([c for c, _ in stream]), np.array([e for _, e in stream]), np.arange(0, n, 8)
    )
    outcomes = StreamOutcomes(
        generator.exponential(size=n).astype(np.float32),
        generator.random(n) < 0.7,
        generator.random(n).astype(np.float32),
        generator.uniform(0.4, 1, n).astype(np.float32),
        end,
        len(layout),
        2.0,
    )
    return StreamRecord(arm, seed, order, layout, outcomes, 10)


@pytest.fixture
def records() -> list[StreamRecord]:
    return [make_record(arm, seed, order) for arm in ("x", "yy") for seed in (3, 5, 8) for order in range(2)]


def test_a_summary_has_the_means_over_streams(records):
    by_arm = {summary.arm: summary for summary in summarize_arms(records)}
    own = [record for record in records if record.arm == "x"]
    errors = [np.mean([not c for c in record.outcomes.correct]) for record in own]
    summary = by_arm["x"]
    assert summary.error == pytest.approx(np.mean(errors))
    assert summary.deviation == pytest.approx(np.std(errors, ddof=1))
    assert summary.loss == pytest.approx(np.mean([record.outcomes.losses.mean() for record in own]), rel=1e-6)
    assert summary.brier == pytest.approx(np.mean([record.outcomes.brier.mean() for record in own]), rel=1e-6)
    assert summary.seconds_per_batch == pytest.approx(2.0 / 5)
    assert summary.errors_by_condition["b"] == pytest.approx(
        np.mean([1 - record.outcomes.correct[record.layout.condition_of == 1].mean() for record in own])
    )
    assert summary.streams == 6


def test_arms_are_sorted_by_error(records):
    errors = [summary.error for summary in summarize_arms(records)]
    assert errors == sorted(errors)


def test_an_arm_that_ended_has_no_loss_and_is_not_compared(records):
    ended = [make_record("zzz", 3, order, end="mini-batch 1") for order in range(2)]
    ended += [make_record("zzz", seed, order) for seed in (5, 8) for order in range(2)]
    by_arm = {summary.arm: summary for summary in summarize_arms([*records, *ended])}
    assert by_arm["zzz"].loss is None
    assert by_arm["zzz"].calibration_error is None
    assert list(by_arm["zzz"].ends) == [(3, 0), (3, 1)]
    assert set(score_replicates([*records, *ended], StreamScore.ERROR)) == {"x", "yy"}


@pytest.mark.parametrize("score", StreamScore)
def test_replicates_are_networks_with_the_mean_over_orders_and_conditions(records, score):
    scores = score_replicates(records, score)["x"]
    assert scores.shape == (3, 20)
    own = [record for record in records if record.arm == "x" and record.seed == 5]
    values = []
    for record in own:
        of_stream = ~record.outcomes.correct if score is StreamScore.ERROR else record.outcomes.losses
        values += of_stream[record.layout.example_of == 7].astype(np.float64).tolist()
    assert len(values) == 4
    assert scores[1, 7] == pytest.approx(np.mean(values))


def test_conditions_of_the_same_examples_add_no_examples(records):
    assert score_replicates(records, StreamScore.ERROR)["x"].shape[1] == 20


def test_the_mean_of_the_scores_is_the_error_though_conditions_differ_in_size():
    record = make_record("x", 0, 0)
    chosen = (record.layout.condition_of == 0) | (record.layout.example_of < 5)
    layout = replace(
        record.layout, condition_of=record.layout.condition_of[chosen], example_of=record.layout.example_of[chosen]
    )
    outcomes = replace(record.outcomes, correct=record.outcomes.correct[chosen])
    scores = score_replicates([replace(record, layout=layout, outcomes=outcomes)], StreamScore.ERROR)["x"]
    assert scores.mean() == pytest.approx(outcomes.error)


def test_the_orders_of_one_network_are_replicates(records):
    assert score_replicates([r for r in records if r.seed == 3], StreamScore.LOSS)["x"].shape == (2, 20)


def test_an_example_has_the_mean_over_passes():
    record = make_record("x", 0, 0, passes=3)
    scores = score_replicates([record], StreamScore.LOSS)["x"]
    place = record.layout.example_of == 4
    assert place.sum() == 6
    assert scores[0, 4] == pytest.approx(record.outcomes.losses[place].astype(np.float64).mean())


def test_an_arm_collapses_beside_the_arm_without_adaptation_of_its_configuration():
    def make(arm: str, method: str, configuration: str, correct: np.ndarray) -> StreamRecord:
        record = make_record(arm, 0, 0, passes=10)
        outcomes = replace(record.outcomes, correct=correct)
        return replace(record, outcomes=outcomes, method=method, configuration=configuration)

    good, poor = np.ones(400, np.bool_), np.arange(400) < 100
    arms = [
        make("t", "none", "TT--", poor),
        make("f", "none", "FF--", good),
        make("tent f", "tent", "FF--", poor),
        make("tent t", "tent", "TT--", poor),
    ]
    collapses = {summary.arm: summary.collapses for summary in summarize_arms(arms)}
    assert collapses["tent f"].keys() == {(0, 0)}
    assert not collapses["tent t"]
    assert not collapses["t"]
    assert not collapses["f"]


def test_arms_of_different_streams_are_not_compared(records):
    with pytest.raises(DataError, match="other streams"):
        score_replicates(records[:-1], StreamScore.ERROR)


def test_calibration_error_equals_a_loop_over_bins():
    generator = np.random.default_rng(0)
    confidences, correct = generator.random(500), generator.random(500) < 0.5
    confidences[:3] = 0, 1, 1 / 15
    total = 0.0
    for low in range(15):
        inside = (confidences > low / 15) & (confidences <= (low + 1) / 15)
        if low == 0:
            inside |= confidences == 0
        if inside.any():
            total += inside.sum() / 500 * abs(correct[inside].mean() - confidences[inside].mean())
    assert expected_calibration_error(confidences, correct) == pytest.approx(total, abs=1e-12)


def test_calibrated_predictions_have_no_calibration_error():
    assert expected_calibration_error(np.full(4, 0.75), np.array([True, True, True, False])) == pytest.approx(0)
