"""All arms run over one stream in one call; each as it runs alone, and one that fails ends alone."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.adaptation.arms import StreamArm
from bln_search.adaptation.method import Adaptation
from bln_search.adaptation.run_stream import run_stream
from bln_search.adaptation.stream_plan import plan_stream
from bln_search.core.adaptation_info import AdaptationInfo
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.registry import ADAPTATIONS
from bln_search.norms import BN
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.norms.statistics import LayerPopulation, PopulationPair
from bln_search.specs.sections.stream import StreamSpec

CLASSES = 3


def row(code: str, weight: str = "") -> InferenceRow:
    return InferenceRow(InferenceConfiguration(code), None if code == "FF--" else f"frozen{weight}")


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), BN(8), nn.ReLU(), nn.Linear(8, CLASSES)).double().eval()


@pytest.fixture
def populations(network):
    (layer,) = get_norms_by_name(network).values()
    pair = PopulationPair(torch.full((1, 8), 0.1).double(), torch.full((1, 8), 0.7).double())
    return {layer: {"frozen": LayerPopulation(pair, None)}}


@pytest.fixture
def data() -> Mapping[str, tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: (
            torch.randn(50, 6, generator=generator, dtype=torch.float64) + shift,
            torch.randint(CLASSES, (50,), generator=generator),
        )
        for name, shift in (("a", 0.0), ("b", 1.0))
    }


def plan_of(data, **stream):
    return plan_stream({name: y.numpy() for name, (_, y) in data.items()}, StreamSpec(batch_size=16, **stream), order=0)


ARMS = (
    StreamArm("source", row("TT--")),
    StreamArm("mini-batch", row("FF--")),
    StreamArm("moving", row("EE--", "@0.9")),
    StreamArm("lame", row("FF--"), "lame"),
    StreamArm("tent", row("FF--"), "tent", {"learning_rate": 0.1}),
)


@pytest.mark.parametrize("mixture", ["conditions", "mixed"])
def test_arms_in_one_call_have_the_outcomes_that_they_have_alone(network, populations, data, mixture):
    plan = plan_of(data, mixture=mixture)
    together = run_stream(network, ARMS, populations, data, plan)
    for arm, outcomes in zip(ARMS, together, strict=True):
        (alone,) = run_stream(network, [arm], populations, data, plan)
        assert np.array_equal(outcomes.losses, alone.losses)
        assert np.array_equal(outcomes.confidences, alone.confidences)
        assert outcomes.end == ""
        assert outcomes.batches == len(plan)


def test_scores_are_those_of_a_loop_over_mini_batches(network, populations, data):
    plan = plan_of(data)
    (outcomes,) = run_stream(network, [ARMS[1]], populations, data, plan)
    place = 0
    for conditions, examples in plan.iter_mini_batches():
        inputs, targets = data["ab"[conditions[0]]]
        x, y = inputs[examples].numpy(), targets[examples].numpy()
        weights = {name: value.detach().numpy() for name, value in network.named_parameters()}
        hidden = x @ weights["0.weight"].T + weights["0.bias"]
        hidden = (hidden - hidden.mean(0)) / np.sqrt(hidden.var(0) + 1e-4)
        logits = np.maximum(hidden, 0) @ weights["3.weight"].T + weights["3.bias"]
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        part = slice(place, place + len(y))
        assert outcomes.losses[part] == pytest.approx(-np.log(p[np.arange(len(y)), y]), rel=1e-6)
        assert outcomes.brier[part] == pytest.approx(((p - np.eye(CLASSES)[y]) ** 2).sum(1), rel=1e-6)
        assert outcomes.confidences[part] == pytest.approx(p.max(1), rel=1e-6)
        assert np.array_equal(outcomes.correct[part], p.argmax(1) == y)
        place += len(y)


def test_the_network_and_its_layers_are_not_changed(network, populations, data):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    run_stream(network, ARMS, populations, data, plan_of(data))
    after = network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_reset_arm_begins_each_condition_as_a_stream_of_its_own(network, populations, data):
    plan = plan_of(data, reset="condition")
    together = run_stream(network, ARMS, populations, data, plan)
    second = {"b": data["b"]}
    examples = plan.example_of[plan.condition_of == 1]
    alone_plan = plan_stream({"b": data["b"][1].numpy()}, StreamSpec(batch_size=16), order=0)
    alone_plan.example_of[:] = examples
    for outcomes, alone in zip(together, run_stream(network, ARMS, populations, second, alone_plan), strict=True):
        assert np.array_equal(outcomes.losses[plan.condition_of == 1], alone.losses)


class _Failing(Adaptation):
    def predict(self, inputs):
        if len(inputs) and float(inputs.mean()) > 0.5:
            raise RuntimeError("no more")
        return self.network(inputs).detach()

    def reset(self):
        pass


class _NotFinite(Adaptation):
    calls = 0

    def predict(self, inputs):
        self.calls += 1
        return self.network(inputs).detach() * (math.nan if self.calls == 2 else 1)

    def reset(self):
        pass


@pytest.fixture
def plug_ins(monkeypatch):
    infos = {
        "failing": AdaptationInfo(f"{__name__}:_Failing"),
        "not_finite": AdaptationInfo(f"{__name__}:_NotFinite"),
        "wrong": AdaptationInfo("builtins:id"),
    }
    monkeypatch.setattr(ADAPTATIONS, "built_in", {**ADAPTATIONS.built_in, **infos})


@pytest.mark.usefixtures("plug_ins")
def test_an_arm_that_fails_or_diverges_ends_alone(network, populations, data):
    plan = plan_of(data)
    arms = [*ARMS, StreamArm("f", row("FF--"), "failing"), StreamArm("n", row("FF--"), "not_finite")]
    *others, failed, diverged = run_stream(network, arms, populations, data, plan)
    expected = run_stream(network, ARMS, populations, data, plan)
    assert [each.losses.tobytes() for each in others] == [each.losses.tobytes() for each in expected]
    assert "RuntimeError: no more" in failed.end
    assert failed.batches == 4
    assert np.isfinite(failed.losses[:50]).all()
    assert np.isinf(failed.losses[50:]).all()
    assert not failed.correct[50:].any()
    assert diverged.batches == 1
    assert "not finite" in diverged.end


def test_inputs_that_are_not_finite_end_the_arms_that_read_them_only(network, populations, data):
    inputs, _ = data["b"]
    inputs[3, 0] = math.inf
    outcomes = run_stream(network, ARMS, populations, data, plan_of(data))
    assert all(each.end for each in outcomes)
    assert all(4 <= each.batches < 8 for each in outcomes)


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("tennt", {}, "did you mean"),
        ("tent", {"rate": 1}, "has no option 'rate'"),
        ("wrong", {}, "no bln_search"),
    ],
)
def test_an_unknown_method_or_option_is_an_error_before_the_stream(
    network, populations, data, method, options, message
):
    with pytest.raises(ModelError, match=message):
        run_stream(network, [StreamArm("x", row("FF--"), method, options)], populations, data, plan_of(data))


def test_predictions_of_outputs_that_are_no_logits_end_the_arm(populations, data):
    network = nn.Sequential(nn.Linear(6, 8), BN(8), nn.Linear(8, 1)).double().eval()
    (layer,), (pair,) = get_norms_by_name(network).values(), populations.values()
    (outcomes,) = run_stream(network, [StreamArm("x", row("TT--"))], {layer: pair}, data, plan_of(data))
    assert "at least two classes" in outcomes.end
    assert outcomes.batches == 0


def test_losses_of_confident_predictions_are_exact(network, populations, data):
    with torch.no_grad():
        network[3].weight.mul_(1e4)
    (outcomes,) = run_stream(network, [ARMS[1]], populations, data, plan_of(data))
    assert outcomes.end == ""
    assert outcomes.losses.max() > 1e3
    assert F.relu(torch.from_numpy(outcomes.losses)).equal(torch.from_numpy(outcomes.losses))
