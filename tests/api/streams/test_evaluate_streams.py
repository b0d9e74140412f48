"""Networks, arms and streams in one call: ranked arms, selected candidates, and clear errors."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bln_search.core.errors import DataError, ModelError
from bln_search.core.streams import SelectionData

OPTIONS = {"orders": 2, "batch_size": 20, "progress": False}


def make_loader(shift: float, examples: int = 120, seed: int = 0) -> DataLoader:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (examples,), generator=generator)
    centres = 2 * torch.eye(3).repeat(1, 2)
    inputs = centres[labels] + torch.randn(examples, 6, generator=generator)
    inputs += shift * torch.tensor([1.0, -1, 0, 1, -1, 0])
    return DataLoader(TensorDataset(inputs, labels), 32)


def make_network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(5):
        for inputs, labels in make_loader(0.0, 300, seed=9):
            loss = nn.functional.cross_entropy(network(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return bln_search.convert(network, method="same").eval()


@pytest.fixture(scope="module")
def networks() -> list[nn.Module]:
    return [make_network(seed) for seed in range(2)]


@pytest.fixture(scope="module")
def train_loader() -> DataLoader:
    return make_loader(0.0, 300, seed=9)


CONDITIONS = {"clean": make_loader(0.0), "moved": make_loader(3.0)}


def test_arms_are_ranked_over_networks_and_orders(networks, train_loader):
    ranked = bln_search.evaluate_streams(networks, train_loader, CONDITIONS, **OPTIONS)
    assert {arm.arm for arm in ranked.arms} == {"none T", "none F", "tent F"}
    assert len(ranked.records) == 3 * 2 * 2
    assert ranked.networks == 2
    assert ranked.arms[-1].arm == "none T"
    assert ranked.compared("none T").verdict == "worse"
    rows = ranked.to_records()
    assert rows[-1]["error moved"] > 0.3
    assert rows[-1]["error clean"] < 0.1
    assert all(row["streams"] == 4 for row in rows)
    assert "none T" in str(ranked)
    html = ranked._repr_html_()
    assert html.count("<tr") == 4
    assert 'aria-label="Differences to the best row"' in html


def test_the_arm_without_adaptation_has_the_error_of_the_configuration(networks, train_loader):
    ranked = bln_search.evaluate_streams(networks[0], train_loader, CONDITIONS["moved"], adapt=["none"], **OPTIONS)
    table = bln_search.evaluate_configurations(networks[0], train_loader, CONDITIONS["moved"], progress=False)
    accuracies = {
        record["validation_accuracy_mean"]
        for record in table.to_records()
        if (record["configuration"], record["population"]) == ("TT--", "frozen")
    }
    assert 1 - ranked.arms[0].error == pytest.approx(accuracies.pop(), abs=1e-6)
    assert not accuracies
    assert ranked.comparison is None


def test_a_call_is_repeatable(networks, train_loader):
    first, second = (
        bln_search.evaluate_streams(networks[0], train_loader, CONDITIONS, adapt=["tent", "none"], **OPTIONS)
        for _ in range(2)
    )
    for a, b in zip(first.records, second.records, strict=True):
        assert np.array_equal(a.outcomes.losses, b.outcomes.losses)


def test_networks_are_not_changed(networks, train_loader):
    before = {name: value.clone() for name, value in networks[0].state_dict().items()}
    bln_search.evaluate_streams(networks[0], train_loader, CONDITIONS, **OPTIONS)
    assert all(torch.equal(value, before[name]) for name, value in networks[0].state_dict().items())


def test_candidates_are_selected_by_each_data_and_marked(networks, train_loader):
    arm = {"name": "none", "configuration": "B", "label": "blend", "candidates": {"weight": [0.99, 0.5, 0.01]}}
    ranked = bln_search.evaluate_streams(
        networks,
        train_loader,
        {"moved": make_loader(3.0)},
        adapt=["none", arm],
        source_loader=make_loader(0.0, seed=5),
        held_out_loader={"far": make_loader(6.0, seed=5)},
        oracle=True,
        **OPTIONS,
    )
    by_data = {summary.selected_on: summary for summary in ranked.arms if summary.arm.startswith("blend")}
    assert by_data.keys() == {SelectionData.SOURCE, SelectionData.HELD_OUT, SelectionData.ORACLE}
    assert by_data[SelectionData.ORACLE].error <= min(arm.error for arm in by_data.values())
    assert by_data[SelectionData.HELD_OUT].error < by_data[SelectionData.SOURCE].error
    assert "no one has these labels" in " ".join(str(ranked).split())
    oracle = by_data[SelectionData.ORACLE].arm
    assert ranked.compared(oracle) is None
    assert ranked.comparison.recommended.name != oracle


def test_the_score_that_ranks_also_selects(networks, train_loader):
    arm = {"name": "none", "configuration": "B", "label": "blend", "candidates": {"weight": [0.9, 0.5, 0.1]}}
    options = {**OPTIONS, "source_loader": make_loader(1.0, seed=5), "rank_by": "loss"}
    ranked = bln_search.evaluate_streams(networks[0], train_loader, CONDITIONS, adapt=["none", arm], **options)
    (chosen,) = (summary.configuration for summary in ranked.arms if summary.arm.startswith("blend"))
    losses = {}
    for weight in (0.9, 0.5, 0.1):
        fixed = {"name": "none", "configuration": "B", "weight": weight}
        alone = bln_search.evaluate_streams(
            networks[0], train_loader, make_loader(1.0, seed=5), adapt=[fixed], **OPTIONS
        )
        losses[f"BB-- frozen@{weight}"] = alone.arms[0].loss
    assert chosen == min(losses, key=losses.get)


def test_all_networks_have_the_same_examples_though_a_loader_shuffles(networks, train_loader):
    shuffled = DataLoader(CONDITIONS["moved"].dataset, 32, shuffle=True)
    ranked = bln_search.evaluate_streams([*networks], train_loader, shuffled, adapt=["none", "tent"], **OPTIONS)
    first, second = (record for record in ranked.records if record.arm == "none T" and record.order == 0)
    by_example = [record.outcomes.losses[np.argsort(record.layout.example_of)] for record in (first, second)]
    assert np.corrcoef(by_example)[0, 1] > 0.5


def test_a_single_stream_is_not_compared(networks, train_loader):
    ranked = bln_search.evaluate_streams(networks[0], train_loader, CONDITIONS, **{**OPTIONS, "orders": 1})
    assert ranked.comparison is None
    assert all(row["verdict"] is None for row in ranked.to_records())
    assert "ended early" not in str(ranked)


def test_arms_with_one_candidate_keep_their_label(networks, train_loader):
    arms = ["none", {"name": "none", "label": "x", "candidates": {"configuration": ["F"]}}]
    ranked = bln_search.evaluate_streams(
        networks[0], train_loader, CONDITIONS, adapt=arms, source_loader=make_loader(0.0, seed=5), **OPTIONS
    )
    assert {arm.arm for arm in ranked.arms} == {"none T", "x"}
    assert all(arm.streams == 2 for arm in ranked.arms)


def test_configurations_with_and_without_a_weight_are_candidates_together(networks, train_loader):
    arm = {"name": "none", "label": "any", "candidates": {"configuration": ["T", "F", "E"], "weight": [0.9, 0.5]}}
    ranked = bln_search.evaluate_streams(
        networks[0], train_loader, CONDITIONS, adapt=["none", arm], source_loader=make_loader(6.0, seed=5), **OPTIONS
    )
    assert {arm.configuration for arm in ranked.arms if arm.arm.startswith("any")} <= {
        "FF--",
        "TT-- frozen",
        "EE-- frozen@0.9",
        "EE-- frozen@0.5",
    }


def test_a_diverging_arm_is_last_and_not_compared(networks, train_loader):
    ranked = bln_search.evaluate_streams(
        networks,
        train_loader,
        CONDITIONS,
        adapt=["none", "tent", {"name": "tent", "learning_rate": 1e38, "label": "x"}],
        **OPTIONS,
    )
    assert ranked.arms[-1].arm == "x"
    assert ranked.compared("x") is None
    assert ranked.arms[-1].ends
    assert ranked.to_records()[-1]["loss"] is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"adapt": []}, ValueError, "at least one arm"),
        ({"adapt": "tent"}, TypeError, "list of arms"),
        ({"adapt": ["none", "none"]}, ValueError, "two arms are called"),
        ({"adapt": ["tennt"]}, ModelError, "did you mean `tent`"),
        ({"adapt": [{"name": "tent", "learning_rate": -1}]}, ValueError, "learning_rate"),
        ({"adapt": [{"name": "tent", "learning_rate": float("nan")}]}, ValueError, "learning_rate"),
        ({"adapt": [{"name": "none", "configuration": "B"}]}, ValueError, "weight"),
        ({"adapt": [{"name": "none", "configuration": "TTFF"}]}, ValueError, "does not have the statistics"),
        ({"adapt": [{"name": "none", "configuration": "XX--"}]}, ValueError, "XX--"),
        ({"adapt": [{"name": "tent", "candidates": {"learning_rate": [1e-3, 1e-2]}}]}, ValueError, "nothing to select"),
        ({"adapt": [{"name": "tent", "candidates": {"learning_rate": []}}]}, ValueError, "at least one value"),
        ({"adapt": [{"name": "tent", "candidates": {"label": ["a", "b"]}}]}, ValueError, "label is no option"),
        ({"adapt": [{"name": "tent", "candidates": {"steps": list(range(1, 80))}}]}, ValueError, "more than 64"),
        ({"practical": -1}, ValueError, "practical"),
        ({"oracle": "no"}, TypeError, "oracle"),
        ({"source_loader": CONDITIONS["moved"]}, ValueError, "one of the stream"),
        ({"order": "sorted"}, ValueError, "order"),
        ({"order": {"dirichlet": -1}}, ValueError, "concentration"),
        ({"mixture": "mixed", "reset": "condition"}, ValueError, "no place"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"orders": 2.5}, ValueError, "orders"),
        ({"rank_by": "accuracy"}, ValueError, "accuracy"),
        ({"current": "bn"}, ValueError, "no arm"),
        ({"population": "target"}, ValueError, "target"),
        ({"held_out_loader": {"moved": None}}, ValueError, "held out, and in the stream"),
        ({"progress": "no"}, TypeError, "progress"),
    ],
)
def test_bad_arguments_are_one_clear_error(networks, train_loader, arguments, error, message):
    with pytest.raises(error, match=message):
        bln_search.evaluate_streams(networks[0], train_loader, CONDITIONS, **(OPTIONS | arguments))


def test_a_regression_is_refused(train_loader):
    network = bln_search.convert(
        nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), method="same"
    ).eval()
    with pytest.raises((DataError, ModelError)):
        bln_search.evaluate_streams(network, train_loader, CONDITIONS, **OPTIONS)
