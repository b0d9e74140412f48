"""The callback for the Trainer of Hugging Face, with a small text classifier on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

from bln_search.core.errors import DataError, ModelError
from tests.conftest import ROOT
from tests.integrations.small_trainings import are_equal, code_of_section, make_loaders, make_network, random_numbers

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")
from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
)

from bln_search.integrations.loops import watch  # noqa: E402
from bln_search.integrations.transformers import ConfigurationEvaluationCallback  # noqa: E402

pytestmark = pytest.mark.slow


class Texts(Dataset):
    """Token ids with padding; the label says whether the first ones are large."""

    def __init__(self, examples, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(1, 50, (examples, 8), generator=generator)
        self.tokens[::2, 6:] = 0

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        row = self.tokens[index]
        return {"input_ids": row, "attention_mask": (row != 0).long(), "labels": (row[0] > 25).long()}


class TextStream(IterableDataset):
    """The same texts one after the other, without an end."""

    def __init__(self, texts):
        self.texts, self.position = texts, 0

    def __iter__(self):
        while True:
            self.position += 1
            yield self.texts[self.position % len(self.texts)]


class BatchNormClassifier(nn.Module):
    """A classifier with running statistics and the interface of a model of transformers."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(50, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask=None, labels=None):
        mask = attention_mask[..., None]
        logits = self.head(self.norm((self.embedding(input_ids) * mask).sum(1) / mask.sum(1)))
        output = {"logits": logits}
        return output if labels is None else {"loss": nn.functional.cross_entropy(logits, labels), **output}


def make_model():
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=2,
        )
    )


def make_arguments(tmp_path, **options):
    defaults = {"num_train_epochs": 2, "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8}
    silent = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    return TrainingArguments(str(tmp_path), **defaults | silent | options)


def make_trainer(tmp_path, model=make_model, training=None, validation=None, callbacks=(), **options):
    transformers.set_seed(1)
    return Trainer(
        model(),
        make_arguments(tmp_path, **options),
        train_dataset=Texts(48, 1) if training is None else training,
        eval_dataset=Texts(40, 2) if validation is None else validation,
        callbacks=list(callbacks),
    )


def train(trainer, evaluation=None, **options):
    """Train, and return all that a training leaves."""
    if evaluation is not None:
        trainer.add_callback(evaluation)
    result = trainer.train(**options)
    modes = [module.training for module in trainer.model.modules()]
    return (
        trainer.model.state_dict(),
        trainer.optimizer.state_dict(),
        trainer.lr_scheduler.state_dict(),
        random_numbers(),
        modes,
        result.training_loss,
        len(trainer.accelerator._dataloaders),
    )


@pytest.mark.parametrize("model", [make_model, BatchNormClassifier])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_accumulation_steps": 4, "eval_strategy": "epoch"},
        {"bf16": True},
        {"dataloader_num_workers": 1, "dataloader_persistent_workers": True, "eval_strategy": "epoch"},
    ],
    ids=str,
)
def test_the_training_is_bit_for_bit_that_without_the_callback(tmp_path, model, options):
    without = train(make_trainer(tmp_path, model, **options))
    trainer = make_trainer(tmp_path, model, **options)
    evaluation = ConfigurationEvaluationCallback(trainer, every=1, check=model is BatchNormClassifier)
    assert are_equal(without, train(trainer, evaluation))
    assert evaluation.error is None
    assert [metrics["epoch"] for metrics in evaluation.history] == [1, 2]
    assert (evaluation.report is not None) == (model is BatchNormClassifier)


def test_the_metrics_are_those_of_the_trainer_and_are_logged(tmp_path):
    trainer = make_trainer(tmp_path)
    evaluation = ConfigurationEvaluationCallback(trainer)
    train(trainer, evaluation)
    in_use = evaluation.history[-1]["in_use_loss"]
    assert in_use == pytest.approx(trainer.evaluate()["eval_loss"], abs=1e-5)
    logged = [logs for logs in trainer.state.log_history if "eval_bln_search/in_use_loss" in logs]
    assert [(logs["eval_bln_search/in_use_loss"], logs["epoch"]) for logs in logged] == [(in_use, 2.0)]


def test_tensorboard_gets_the_metrics(tmp_path, monkeypatch):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    trainer = make_trainer(tmp_path, report_to="tensorboard")
    evaluation = ConfigurationEvaluationCallback(trainer)
    train(trainer, evaluation)
    events = accumulator.EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    value = events.Scalars("eval/bln_search/recommended_loss")[-1].value
    assert value == pytest.approx(evaluation.history[-1]["recommended_loss"])


def test_trackers_end_their_run_after_the_last_evaluation(tmp_path):
    events = []

    class Tracker(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs, **kwargs):
            events.extend(name for name in logs if name.endswith("recommended_loss"))

        def on_train_end(self, *args, **kwargs):
            events.append("end")

    trainer = make_trainer(tmp_path, callbacks=[Tracker()])
    train(trainer, ConfigurationEvaluationCallback(trainer))
    assert events == ["eval_bln_search/recommended_loss", "end"]


def test_the_best_model_is_evaluated_where_it_is_loaded_at_the_end(tmp_path):
    options = {"load_best_model_at_end": True, "eval_strategy": "epoch", "save_strategy": "epoch"}
    trainer = make_trainer(tmp_path, learning_rate=0.5, num_train_epochs=3, **options)
    trainer.add_callback(EarlyStoppingCallback(1))
    evaluation = ConfigurationEvaluationCallback(trainer)
    train(trainer, evaluation)
    assert evaluation.history[-1]["in_use_loss"] == pytest.approx(trainer.state.best_metric, abs=1e-5)


def test_a_resumed_training_is_that_without_the_callback(tmp_path):
    def run(folder, *, with_callback):
        first = make_trainer(folder, BatchNormClassifier, save_strategy="epoch")
        train(first, ConfigurationEvaluationCallback(first, every=1) if with_callback else None)
        again = make_trainer(folder, BatchNormClassifier, save_strategy="epoch", num_train_epochs=3)
        evaluation = ConfigurationEvaluationCallback(again, every=1) if with_callback else None
        return train(again, evaluation, resume_from_checkpoint=True)[:5]

    assert are_equal(run(tmp_path / "a", with_callback=False), run(tmp_path / "b", with_callback=True))


def test_the_recommended_configuration_is_applied_and_training_goes_on(tmp_path):
    trainer = make_trainer(tmp_path, BatchNormClassifier)
    evaluation = ConfigurationEvaluationCallback(trainer, apply=True)
    train(trainer, evaluation)
    assert evaluation.error is None
    recommended = evaluation.history[-1]["recommended_loss"]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(recommended, abs=1e-5)
    trainer.train()
    assert evaluation.error is None


def test_several_evaluation_sets_are_conditions(tmp_path):
    validation = {"clean": Texts(40, 2), "other": Texts(24, 3)}
    trainer = make_trainer(tmp_path, validation=validation)
    evaluation = ConfigurationEvaluationCallback(trainer, every=1, apply=True)
    train(trainer, evaluation)
    assert set(evaluation.ranked) == {"clean", "other"}


def test_a_stream_is_read_as_far_as_it_was_trained_on(tmp_path):
    def run(*, with_callback):
        trainer = make_trainer(tmp_path, training=TextStream(Texts(48, 1)), max_steps=3, gradient_accumulation_steps=2)
        evaluation = ConfigurationEvaluationCallback(trainer) if with_callback else None
        return train(trainer, evaluation), evaluation

    with_callback, evaluation = run(with_callback=True)
    assert are_equal(run(with_callback=False)[0], with_callback)
    assert evaluation.ranked.examples_by_loader == {"train_loader": 48, "validation_loader": 40}


def test_a_list_of_mini_batches_as_training_loader_is_read(tmp_path):
    class ListTrainer(Trainer):
        def get_train_dataloader(self):
            return list(super().get_train_dataloader())

    trainer = make_trainer(tmp_path, max_steps=6)
    trainer.__class__ = ListTrainer
    evaluation = ConfigurationEvaluationCallback(trainer, on_error="raise")
    train(trainer, evaluation)
    assert len(evaluation.history) == 1


@pytest.mark.parametrize("name", ["", "two words"])
def test_conditions_that_cannot_be_evaluated_are_reported_at_the_start(tmp_path, name):
    trainer = make_trainer(tmp_path)
    trainer.eval_dataset = {name: Texts(40, 2)} if name else {}
    message = "is not the name of a condition" if name else "names no condition"
    evaluation = ConfigurationEvaluationCallback(trainer, on_error="raise")
    trainer.add_callback(evaluation)
    with pytest.raises(ValueError, match=message):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_fraction_of_an_epoch_is_evaluated_at_the_end_alone(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=8)
    evaluation = ConfigurationEvaluationCallback(trainer, every=1)
    train(trainer, evaluation)
    assert [metrics["epoch"] for metrics in evaluation.history] == [1, 1]


@pytest.mark.parametrize("case", ["no validation", "no normalization", "failing"])
def test_an_evaluation_that_fails_is_a_warning_or_an_error_as_asked(tmp_path, case):
    class Linear(BatchNormClassifier):
        def __init__(self):
            super().__init__()
            self.norm = nn.Identity()

    def fail(model, batch):
        raise RuntimeError("no forward")

    model = Linear if case == "no normalization" else BatchNormClassifier
    options = {"forward": fail} if case == "failing" else {}
    message = {"no validation": "no eval_dataset", "no normalization": "no BatchNorm", "failing": "no forward"}[case]
    kind = ModelError if case == "no normalization" else DataError

    def make():
        trainer = make_trainer(tmp_path, model)
        if case == "no validation":
            trainer.eval_dataset = None
        return trainer

    without, trainer = train(make()), make()
    with pytest.warns(UserWarning, match=rf"the training goes on .*{message}"):
        assert are_equal(without, train(trainer, ConfigurationEvaluationCallback(trainer, apply=True, **options)))
    trainer = make()
    with pytest.raises(kind, match=message):
        train(trainer, ConfigurationEvaluationCallback(trainer, on_error="raise", **options))


def test_a_wrong_argument_is_an_error_before_the_training(tmp_path):
    with pytest.raises(TypeError, match=r"trainer has the type BertForSeq.*: give the transformers\.Trainer"):
        ConfigurationEvaluationCallback(make_model())
    with pytest.raises(ValueError, match="there is no score"):
        ConfigurationEvaluationCallback(make_trainer(tmp_path), score="f1")


def test_the_code_of_the_page_runs_as_it_stands(tmp_path, capsys):
    names = {"model": make_model(), "training": Texts(48, 1), "validation": Texts(40, 2)}
    exec(code_of_section("Hugging Face Trainer"), names | {"arguments": make_arguments(tmp_path)})
    assert "Recommended:" in capsys.readouterr().out


@pytest.fixture
def new_accelerators():
    """Forget the settings that the first Accelerator of a process makes, before and after a test."""

    def reset():
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerate.state.GradientState._reset_state()

    reset()
    yield
    reset()


@pytest.mark.usefixtures("new_accelerators")
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_loop_with_accelerate_is_bit_for_bit_that_without_evaluation(precision):
    def run(*, is_watched):
        transformers.set_seed(1)
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=4)
        network, (training, validation) = make_network(), make_loaders(generator=torch.Generator().manual_seed(7))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        network, optimizer, training, validation = accelerator.prepare(network, optimizer, training, validation)
        watched = watch(network, training, validation, every=1, check=True, on_error="raise") if is_watched else None
        with watched or nullcontext():
            for _ in range(3):
                for inputs, targets in training:
                    with accelerator.accumulate(network):
                        accelerator.backward(nn.functional.cross_entropy(network(inputs), targets))
                        optimizer.step()
                        optimizer.zero_grad()
                if watched:
                    watched.end_epoch()
        return network.state_dict(), optimizer.state_dict(), random_numbers()

    assert are_equal(run(is_watched=False), run(is_watched=True))


DISTRIBUTED = """
import transformers
from tests.integrations.test_transformers import BatchNormClassifier, make_trainer
from bln_search.integrations.transformers import ConfigurationEvaluationCallback

trainer = make_trainer("out", BatchNormClassifier, ddp_backend="gloo")
evaluation = ConfigurationEvaluationCallback(trainer, every=1, apply=True, progress=False)
trainer.add_callback(evaluation)
trainer.train()
print("RANK", trainer.args.process_index, len(evaluation.history), trainer.model.norm.configuration, flush=True)
"""


def test_one_of_two_processes_evaluates_and_both_apply(tmp_path):
    (tmp_path / "run.py").write_text(DISTRIBUTED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "run.py"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    lines = sorted(line.split() for line in process.stdout.splitlines() if line.startswith("RANK"))
    assert [line[1:3] for line in lines] == [["0", "2"], ["1", "0"]]
    assert lines[0][3] == lines[1][3]
