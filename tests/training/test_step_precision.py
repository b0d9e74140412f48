"""Training in other precisions and compiled: what it changes, and what it leaves in IEEE single precision."""

from __future__ import annotations

import shutil

import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.execution.provenance import make_trial_provenance
from bln_search.norms import Normalization
from bln_search.norms.precision import read_precision_flags
from bln_search.specs import parse_study
from bln_search.specs.sections.precision import TrainingPrecision
from bln_search.specs.trial import make_representative_trial_specs
from bln_search.training import TrainingRun
from bln_search.training.seeding import reproducible_torch
from bln_search.training.step_precision import TrainingForward, use_training_precision

ON_GPU = ("cuda.matmul", "cudnn.conv", "cudnn.rnn")


def make_trial(training="", method="bln", model="lenet"):
    (trial,) = make_representative_trial_specs(
        parse_study(f"""
name: x
data: {{name: mnist}}
model: {{name: {model}}}
arms: [{{method: {method}}}]
training: {{epochs: 2, {training}}}
seeds: [0]
""")
    )
    return trial


def train(trial, observe=lambda _run: None):
    """The losses of each epoch, and the network."""
    with reproducible_torch(0, threads=1):
        data = make_synthetic_prepared_data(trial.data, 150)
        network = build_initialized_network(trial, data)
        run = TrainingRun.of_trial(network, data, trial)
        observe(run)
        return [(record.training_loss, record.validation_loss) for record in run.train_epochs()], network


def test_statistics_of_bf16_training_are_in_single_precision():
    seen = {"inputs": set(), "statistics": set(), "outputs": set()}

    def observe(run):
        for layer in run.network.modules():
            if isinstance(layer, Normalization):
                record = layer._record_statistics

                def recorded(statistics, x, record=record):
                    if torch.is_autocast_enabled("cpu"):
                        seen["inputs"].add(x.dtype)
                        seen["statistics"] |= {value.dtype for value in statistics}
                    record(statistics, x)

                layer._record_statistics = recorded
        forward = run.forward

        def watched(x):
            outputs = forward(x)
            seen["outputs"].add(outputs.dtype)
            return outputs

        run.forward = watched

    plain, _ = train(make_trial())
    reduced, network = train(make_trial("precision: bf16"), observe)
    assert seen == {name: {torch.float32} for name in seen}
    assert reduced != plain
    assert [loss for losses in reduced for loss in losses] == pytest.approx(
        [loss for losses in plain for loss in losses], abs=0.05
    )
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def test_mbn_is_trained_in_bf16():
    plain, reduced = (train(make_trial(training, "mbn"))[0] for training in ("", "precision: bf16"))
    assert [loss for losses in reduced for loss in losses] == pytest.approx(
        [loss for losses in plain for loss in losses], abs=0.05
    )


def test_products_of_bf16_training_are_in_bfloat16_and_those_of_validation_are_not():
    seen = {True: set(), False: set()}

    def observe(run):
        for module in run.network.modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_hook(lambda own, _, output: seen[own.training].add(output.dtype))

    train(make_trial("precision: bf16"), observe)
    assert seen == {True: {torch.bfloat16}, False: {torch.float32}}


def test_tf32_is_allowed_in_training_steps_only():
    seen = {True: [], False: []}

    def observe(run):
        run.network.register_forward_hook(lambda own, *_: seen[own.training].append(read_precision_flags()))

    on_cpu, _ = train(make_trial("precision: tf32"), observe)
    assert all(flags[name] == "tf32" for flags in seen[True] for name in ON_GPU)
    assert all(set(flags.values()) == {"ieee"} for flags in seen[False])
    assert on_cpu == train(make_trial())[0]


@pytest.mark.parametrize("precision", list(TrainingPrecision))
def test_flags_are_restored_after_training(precision):
    before = read_precision_flags()
    with use_training_precision(precision):
        flags = read_precision_flags()
        expected = "tf32" if precision is TrainingPrecision.TF32 else "ieee"
        assert {flags[name] for name in ON_GPU} == {expected}
        assert {value for name, value in flags.items() if name not in ON_GPU} == {"ieee"}
        assert torch.backends.cudnn.allow_tf32 == (expected == "tf32")
        assert torch.get_float32_matmul_precision() == ("high" if expected == "tf32" else "highest")
    assert read_precision_flags() == before


def test_provenance_records_precision_and_compilation():
    plain = make_trial_provenance(make_trial(), "cpu")
    assert (plain["precision"], plain["compiled"], plain["fused_norms"]) == ("float32", 0, 0)
    assert "tf32" not in plain["precision_flags"]
    reduced = make_trial_provenance(make_trial("precision: tf32, compile: true"), "cpu")
    assert (reduced["precision"], reduced["compiled"]) == ("tf32", 1)
    assert make_trial_provenance(make_trial("fused_norms: true"), "cpu")["fused_norms"] == 1
    assert "cuda.matmul tf32" in reduced["precision_flags"]
    assert "autocast bfloat16" in make_trial_provenance(make_trial("precision: bf16"), "cpu")["precision_flags"]


@pytest.mark.parametrize("training", ["precision: bf16", "compile: true"])
def test_recurrent_network_of_a_plugin_is_refused(training):
    network = torch.nn.Sequential(torch.nn.LSTM(3, 4))
    with pytest.raises(ModelError, match="recurrent layers"):
        TrainingForward(network, make_trial(training).training)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler, there is no g++")
@pytest.mark.parametrize("method", ["bn", "bln", "none"])
def test_compiled_training_equals_eager_training(method):
    eager, _ = train(make_trial(method=method))
    compiled, network = train(make_trial("compile: true", method=method))
    assert [loss for losses in compiled for loss in losses] == pytest.approx(
        [loss for losses in eager for loss in losses], rel=1e-4
    )
    assert not any("_orig_mod" in name for name in network.state_dict())


@pytest.mark.slow
def test_missing_compiler_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("no-such-compiler",))
    torch._dynamo.reset()
    with pytest.raises(ModelError, match=r"training\.compile"):
        train(make_trial("compile: true"))
