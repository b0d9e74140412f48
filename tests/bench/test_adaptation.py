"""The benchmark of test-time adaptation: its images, its claims, and sections that resume."""

import numpy as np
import pytest
import torch

from bench import adaptation
from bench.support.adaptation import networks
from bench.support.adaptation.claims import judge_order
from bench.support.adaptation.held_out import HELD_OUT, saturate
from bench.support.adaptation.networks import Split, augment
from bench.support.adaptation.runs import run_section
from bench.support.adaptation.sections import SECTIONS
from bench.support.adaptation.stream_data import StreamImages
from bln_search.core.stream_outcomes import StreamLayout, StreamOutcomes, StreamRecord
from bln_search.data import DataSet


@pytest.fixture(scope="module")
def split() -> Split:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (80, 3, 32, 32), np.uint8)
    labels = np.arange(80) % 10
    data = DataSet("small", tuple("abcdefghij"), images, labels, images[:40], labels[:40])
    mean = np.full((1, 3, 1, 1), 0.5)
    return Split(data, np.arange(60), np.arange(60, 80), mean, np.full((1, 3, 1, 1), 0.25))


def make_record(arm: str, seed: int, correct: np.ndarray) -> StreamRecord:
    n = len(correct)
    layout = StreamLayout(("a",), np.zeros(n, np.int64), np.arange(n), np.arange(0, n, 10))
    ones = np.ones(n, np.float32)
    return StreamRecord(arm, seed, 0, layout, StreamOutcomes(ones, correct, ones, ones, "", len(layout), 1.0), 10)


def test_a_section_runs_every_arm_and_resumes_from_its_file(split, tmp_path, monkeypatch):
    torch.manual_seed(0)
    network = networks.make_network((4, 4, 4), 1).eval()
    section = SECTIONS["selection"].scaled(16, 2, 1)
    images = StreamImages(split)
    records = run_section(tmp_path, "selection", section, network, 7, images)
    assert {record.seed for record in records} == {7}
    assert {record.layout.conditions for record in records} == {("gaussian_noise", "shot_noise")}
    arms = {record.arm for record in records}
    assert {"source", "mini-batch", "TENT (selected on held-out conditions)", "blend (selected on test labels)"} <= arms
    monkeypatch.setattr("bln_search.evaluate_streams", None)
    again = run_section(tmp_path, "selection", section, network, 7, images)
    assert [r.outcomes.losses.tobytes() for r in again] == [r.outcomes.losses.tobytes() for r in records]


def test_conditions_are_the_same_images_under_corruptions(split):
    conditions = StreamImages(split).conditions(20, ["gaussian_noise", "contrast"])
    noisy, flat = (loader.dataset[:] for loader in conditions.values())
    assert torch.equal(noisy[1], flat[1])
    assert not torch.equal(noisy[0], flat[0])
    assert flat[0].std() < noisy[0].std()


@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_corruptions_keep_shape_and_range(name):
    images = np.random.default_rng(0).random((3, 3, 8, 8))
    for severity in range(1, 6):
        changed = HELD_OUT[name](images, severity, np.random.default_rng(1))
        assert changed.shape == images.shape
        assert changed.min() >= 0
        assert changed.max() <= 1
        assert not np.array_equal(changed, images)


def test_saturation_equals_a_loop_over_pixels():
    colorsys = pytest.importorskip("colorsys")
    images = np.random.default_rng(0).random((2, 3, 4, 4))
    images[0, :, 0, 0] = 0.3
    expected = images.copy()
    for n, y, x in np.ndindex(2, 4, 4):
        h, s, v = colorsys.rgb_to_hsv(*images[n, :, y, x])
        if s > 0:
            expected[n, :, y, x] = colorsys.hsv_to_rgb(h, np.clip(s * 2.5 + 0.2, 0, 1), v)
    assert saturate(images, 5, np.random.default_rng(0)) == pytest.approx(expected, abs=1e-12)


def test_augmented_images_are_shifted_or_flipped():
    torch.manual_seed(0)
    images = torch.arange(2 * 3 * 32 * 32, dtype=torch.float32).view(2, 3, 32, 32) + 1
    changed = augment(images)
    assert changed.shape == images.shape
    present = set(images.flatten().tolist()) | {0.0}
    assert set(changed.flatten().tolist()) <= present


@pytest.mark.parametrize(
    ("errors", "verdict"), [((0.6, 0.2), "holds"), ((0.2, 0.6), "does not hold"), ((0.3, 0.3), "practically equal")]
)
def test_a_claim_about_an_order_is_judged_over_networks(errors, verdict):
    records = []
    for seed in range(3):
        draws = np.random.default_rng(seed).random(2000)
        records += [make_record(arm, seed, draws >= error) for arm, error in zip("xy", errors, strict=True)]
    claim = judge_order(records, "x", "y")
    assert claim["verdict"] == verdict
    assert claim["difference"] == pytest.approx(errors[0] - errors[1], abs=0.03)
    assert claim["low"] <= claim["difference"] <= claim["high"]


def test_errors_are_reported_by_pass_and_along_the_stream():
    correct = np.array([True] * 50 + [False] * 50)
    records = [make_record("x", 0, correct)]
    assert adaptation.errors_by_pass(records, 2) == {"x": [0.0, 1.0]}
    assert adaptation.make_curves(records)["x"] == [0.0] * 5 + [1.0] * 5
