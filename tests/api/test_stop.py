"""With `stop="decided"` validation is read in stages, until the recommendation stands."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.ranking.comparison import Verdict
from bln_search.ranking.looks import StagedReading, level_of_stage
from bln_search.ranking.statistics.batch_variance import do_mini_batches_differ
from bln_search.ranking.statistics.intervals import ALPHA
from tests.api.shifted_data import make_data, trained

TRAIN = make_data(200, 1)
CLEAR = make_data(2000, scale=2.0, shift=1.0)
OPEN = make_data(480, scale=2.0, shift=1.0)
"""In these the converted BLN network has rows that are worse, and others about which the verdict is `cannot tell`."""


def make_bln():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    network = bln_search.convert(network, batch_size=20)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.3)
    for _ in range(3):
        for x, y in TRAIN:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
    return network.eval()


def evaluate(network, validation, **options):
    return bln_search.evaluate_configurations(network, TRAIN, validation, **options)


@pytest.fixture(scope="module")
def bln():
    return make_bln()


@pytest.fixture(scope="module")
def decided():
    return evaluate(trained(), CLEAR, stop="decided", test_loader=make_data(seed=3))


@pytest.fixture(scope="module")
def undecided(bln):
    return evaluate(bln, OPEN, stop="decided", test_loader=make_data(seed=3))


def unranked(ranked):
    return [row for row in ranked.board.rows if row.rank is None]


def test_a_clear_case_stops_early_with_the_recommendation_of_all_examples(decided):
    full = evaluate(trained(), CLEAR)
    assert decided.staged_reading == StagedReading(260, 2000, ALPHA * 260 / 2000, is_decided=True)
    assert decided.recommended.row.key == full.recommended.row.key
    assert decided.recommendation.verdict in (Verdict.BETTER, Verdict.PRACTICALLY_EQUAL)
    assert {len(outcomes.losses) for key, outcomes in decided.outcomes.items() if key.split is Split.VALIDATION} == {
        260
    }
    text = " ".join(str(decided).split())
    assert "Decided after 260 of 2,000 validation examples: figures are means over these examples." in text


def test_an_open_case_reads_everything_and_has_the_figures_of_the_full_evaluation(bln, undecided):
    full = {row.key: row for row in evaluate(bln, OPEN).board.rows}
    assert undecided.staged_reading == StagedReading(480, 480, ALPHA / 2)
    assert undecided.comparison.level == ALPHA / 2
    ranked = [row for row in undecided.board.rows if row.rank]
    assert len(ranked) >= 2
    for row in ranked:
        loss = full[row.key].metrics[Split.VALIDATION].loss.mean
        assert row.metrics[Split.VALIDATION].loss.mean == pytest.approx(loss, rel=1e-6)
    assert "Not decided after all 480 validation examples, which were read in stages." in " ".join(
        str(undecided).split()
    )


def test_rows_that_left_say_why_and_have_no_rank(undecided):
    reasons = {row.reason for row in unranked(undecided)}
    assert reasons == {"worse after 120 of 480 examples", "worse after 240 of 480 examples"}
    assert all(reason in " ".join(str(undecided).split()) for reason in reasons)
    assert reasons < {record["reason"] for record in undecided.to_records()}


def test_the_test_split_is_evaluated_in_rows_that_are_not_worse(decided, undecided):
    for row in unranked(undecided):
        assert Split.TEST not in row.metrics
    for table in (decided, undecided):
        for row in table.comparison.rows:
            metrics = next(other.metrics for other in table.board.rows if other.key == row.key)
            is_worse = row.is_worse and row.above_best.low > table.comparison.margin and row.key != table.as_is.row.key
            assert (Split.TEST in metrics) is not is_worse


def test_the_row_in_use_stays_although_it_is_worse():
    network = trained()
    with torch.no_grad():
        network[1].running_mean += 3.0  # its running statistics are those of other data
    ranked = evaluate(network, make_data(2000), stop="decided")
    assert ranked.as_is.row.rank is not None
    assert ranked.recommendation.current.is_recommended is False


def test_a_sorted_loader_is_read_completely_with_a_warning(bln):
    x, y = make_data(960, scale=2.0, shift=1.0).dataset.tensors
    order = torch.argsort(y)
    ordered = DataLoader(TensorDataset(x[order], y[order]), 20)
    with pytest.warns(UserWarning, match="differ by more than chance, as of sorted data") as caught:
        ranked = evaluate(bln, ordered, stop="decided")
    assert caught[0].filename == __file__
    full = evaluate(bln, ordered)
    assert ranked.staged_reading.examples == 960
    assert ranked.comparison.level == ALPHA
    assert not unranked(ranked)
    assert [row.key for row in ranked.board.rows] == [row.key for row in full.board.rows]


def test_several_networks_read_the_same_stages_also_from_a_shuffled_loader():
    x, y = CLEAR.dataset.tensors
    torch.manual_seed(4)
    shuffled = DataLoader(TensorDataset(x, y), 20, shuffle=True)
    ranked = evaluate([trained(seed) for seed in range(3)], shuffled, stop="decided")
    counts = {
        len(outcomes.losses)
        for table in ranked.networks
        for key, outcomes in table.outcomes.items()
        if next(row for row in table.board.rows if row.configuration == key.configuration).rank
    }
    assert len(counts) == 1
    assert counts == {ranked.staged_reading.examples}
    reasons = [[(row.key, row.reason) for row in unranked(table)] for table in ranked.networks]
    assert {frozenset(of_network) for of_network in reasons} == {frozenset((r.key, r.reason) for r in unranked(ranked))}


def test_a_saved_table_keeps_what_was_read(undecided, tmp_path):
    loaded = bln_search.load_ranked(undecided.save(tmp_path / "ranked"))
    assert loaded.staged_reading == undecided.staged_reading
    assert loaded.to_records() == undecided.to_records()
    with pytest.raises(ModelError, match="evaluate without stop="):
        undecided.to_external_results("open")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": "early"}, "None or 'decided'"),
        ({"stop": "decided", "metrics": {"largest": lambda outputs, _: outputs.max()}}, "metrics="),
        ({"stop": "decided", "batch_sizes": [4, 20]}, "several batch_sizes="),
    ],
)
def test_what_stop_does_not_support_is_refused_before_anything_is_read(options, message):
    def fail():
        raise AssertionError("the loader was read")
        yield

    with pytest.raises(ValueError, match=message):
        bln_search.evaluate_configurations(trained(), fail(), fail(), **options)


def test_a_loader_with_other_examples_for_each_network_is_refused():
    class Random:
        def __iter__(self):
            yield from make_data(240, seed=int(torch.randint(1000, ())))

    with pytest.raises(DataError, match="other examples for one network"):
        evaluate([trained(0), trained(1)], Random(), stop="decided")


def test_class_weights_give_the_weighted_mean_of_the_examples_that_were_read(bln):
    score = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))
    ranked = evaluate(bln, OPEN, score=score, stop="decided")
    assert len(ranked.outcomes) >= 2
    for row in ranked.board.rows:
        key = next(key for key in ranked.outcomes if key.configuration == row.configuration)
        outcomes = ranked.outcomes[key]
        assert set(outcomes.weights) == {1, 5}
        mean = np.average(outcomes.losses.astype(np.float64), weights=outcomes.weights)
        assert row.metrics[Split.VALIDATION].loss.mean == pytest.approx(mean, rel=1e-6)


def test_the_looks_spend_five_percent_together():
    looks = [125, 250, 500, 1000]
    levels = [level_of_stage(earlier, examples, 1000) for earlier, examples in zip([0, *looks], looks, strict=False)]
    assert sum(levels) == pytest.approx(ALPHA)


def test_mini_batches_of_exchangeable_examples_rarely_count_as_different():
    generator = np.random.default_rng(0)
    sizes = np.full(10, 20)
    alarms = sum(do_mini_batches_differ(generator.exponential(size=200) ** 2, sizes) for _ in range(500))
    assert alarms <= 5
    assert do_mini_batches_differ(np.sort(generator.exponential(size=200)), sizes)
    assert not do_mini_batches_differ(np.arange(50.0), np.ones(50, int))
