"""Values of the AP2 page by seed are those of its result files."""

from __future__ import annotations

import json
from math import log

import pytest

from bench.documents.study_losses import losses_of
from bench.support import reporting
from papers.experiments.ap2_batch_sizes import BATCH_SIZE_STUDY, BatchSizeRun
from papers.experiments.ap2_cells import Cell
from tests.conftest import ROOT


@pytest.fixture(name="results")
def _results(monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)
    losses_of.cache_clear()
    yield tmp_path
    losses_of.cache_clear()


def test_a_mean_rise_counts_decreases_as_zero_and_has_a_logarithm_where_it_is_zero(results):
    losses = [[1.0, 3.0], [1.5, 2.0], [0.5, 1.0], [0.8, 0.5], [0.8, 0.5]]
    epochs = {"validation_loss": [{"seeds": seeds} for seeds in losses]}
    document = {"result": {"arms": {"bn": {"epochs": epochs}}}}
    (results / "ap2_mnist_start_bn.json").write_text(json.dumps(document))
    cell = Cell("mnist", "bn", "bn")
    assert cell.rise("validation_loss") == pytest.approx({0: 0.2, 1: 0.0})
    assert cell.log_rise("validation_loss") == pytest.approx({0: log(0.2), 1: log(1e-6)})


@pytest.mark.parametrize(("best", "is_censored"), [(0.01, False), (0.03, True)])
def test_a_rate_is_censored_if_it_is_the_largest_of_its_search(results, best, is_censored):
    search = [{"learning_rate": rate} for rate in (0.003, 0.03, 0.01)]
    document = {"result": {"arms": {"wn": {"learning_rate": best, "search": search}}}}
    (results / "ap2_mnist_start_none.json").write_text(json.dumps(document))
    assert Cell("mnist", "none", "wn").is_censored is is_censored


def test_the_loss_of_a_method_is_compared_with_the_plain_network_at_the_same_mini_batch_size(results):
    by_seed = {
        "none batch_size=2 epochs=1 ---- - 32": {"test seed 0": [0.5, 0.9], "test seed 4": [0.4, 0.8]},
        "ap2 batch_size=2 epochs=1 AA-- - 32": {"test seed 0": [0.6, 0.85], "test seed 4": [0.3, 0.9]},
        "bn batch_size=2 epochs=1 TT-- frozen 32": {"test seed 0": [1.5, 0.6], "validation seed 4": [9.0, 0.1]},
    }
    spec = {"training": {"batch_size": 32}}
    document = {"spec": spec, "loss_and_accuracy_by_seed": by_seed}
    (results / f"{BATCH_SIZE_STUDY}.json").write_text(json.dumps(document))
    assert BatchSizeRun("ap2", 2, 1).less_plain() == pytest.approx({0: 0.1, 4: -0.1})
    assert BatchSizeRun("bn", 2, 1).less_plain() == pytest.approx({0: 1.0})
    assert BatchSizeRun("bn", 2, 1).test("error", 100) == pytest.approx({0: 40.0})


@pytest.mark.parametrize("data", ["mnist", "noisy_mnist", "noisy_cifar10_small"])
def test_the_starts_of_a_data_set_that_are_compared_differ_in_nothing_else(data):
    specs = []
    for path in (ROOT / "bench" / "results").glob(f"ap2_{data}_start_*.json"):
        spec = json.loads(path.read_text())["result"]["spec"]
        training = {key: value for key, value in spec["training"].items() if key != "initialization"}
        specs.append({**spec, "name": "", "title": "", "training": training})
    assert all(spec == specs[0] for spec in specs)
