"""The callback for Lightning, with real trainers on the CPU."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import bln_search
from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation.network_state import NetworkState
from tests.conftest import ROOT
from tests.integrations.small_trainings import (
    Points,
    Stream,
    are_equal,
    code_of_section,
    make_loaders,
    make_network,
    random_numbers,
)

lightning = pytest.importorskip("lightning")
from lightning.pytorch.callbacks import (  # noqa: E402
    Callback,
    EarlyStopping,
    EMAWeightAveraging,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger  # noqa: E402

from bln_search.integrations.lightning import ConfigurationEvaluation  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:::lightning"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),  # raised again by pytest.warns
]


class Classifier(lightning.LightningModule):
    """A classifier of points."""

    def __init__(self, network=None):
        super().__init__()
        self.network = make_network() if network is None else network

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, *_):
        self.log("validation loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Data(lightning.LightningDataModule):
    """The points of the tests."""

    def train_dataloader(self):
        return make_loaders()[0]

    def val_dataloader(self):
        return make_loaders()[1]

    test_dataloader = val_dataloader


def make_trainer(tmp_path, *callbacks, **options):
    silent = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    return lightning.Trainer(
        **{"max_epochs": 2, "accelerator": "cpu", "devices": 1, "logger": False, "default_root_dir": tmp_path}
        | silent
        | {"callbacks": list(callbacks)}
        | options
    )


def fit(tmp_path, *callbacks, module=None, loaders=None, ckpt_path=None, **options):
    """Fit a module, and return the trainer with all that a training leaves."""
    module = Classifier() if module is None else module
    trainer = make_trainer(tmp_path, *callbacks, **options)
    torch.manual_seed(1)
    np.random.seed(1)
    trainer.fit(module, *(make_loaders() if loaders is None else loaders), ckpt_path=ckpt_path)
    states = [optimizer.state_dict() for optimizer in trainer.optimizers]
    modes = [each.training for each in module.modules()]
    return trainer, (trainer.lightning_module.state_dict(), states, random_numbers(), modes, str(module))


def loss_of(trainer, loader=None):
    """The loss that the trainer's own validation measures for its module."""
    (metrics,) = trainer.validate(trainer.lightning_module, loader or make_loaders()[1], verbose=False)
    return metrics["validation loss"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate_grad_batches": 4, "gradient_clip_val": 0.1},
        {"limit_train_batches": 3, "val_check_interval": 1},
        {"precision": "bf16-mixed"},
        {"precision": "bf16-true"},
        {"precision": "64-true"},
    ],
    ids=str,
)
def test_the_training_is_bit_for_bit_that_without_the_callback(tmp_path, options):
    evaluation = ConfigurationEvaluation(every=1, check=True)
    _, without = fit(tmp_path, **options)
    _, with_callback = fit(tmp_path, evaluation, **options)
    assert evaluation.error is None
    assert len(evaluation.history) == 2
    assert are_equal(without, with_callback)


def test_a_compiled_module_is_evaluated_and_trains_as_without_the_callback(tmp_path):
    evaluation = ConfigurationEvaluation(every=1)
    runs = [
        fit(tmp_path, *callbacks, module=torch.compile(Classifier(), backend="eager"))[1][:3]
        for callbacks in ([], [evaluation])
    ]
    assert evaluation.error is None
    assert are_equal(*runs)


def test_a_resumed_training_is_that_without_the_callback(tmp_path):
    def run(name, *callbacks):
        checkpoints = ModelCheckpoint(tmp_path / name, save_last=True)
        fit(tmp_path, checkpoints, *callbacks, enable_checkpointing=True)
        again = ModelCheckpoint(tmp_path / name / "again")
        last = tmp_path / name / "last.ckpt"
        return fit(tmp_path, again, *callbacks, ckpt_path=last, max_epochs=4, enable_checkpointing=True)[1]

    evaluation = ConfigurationEvaluation(every=3)
    assert are_equal(run("without"), run("with", evaluation))
    assert [metrics["epoch"] for metrics in evaluation.history] == [2, 3, 4]


def test_the_metrics_are_those_of_the_trainer(tmp_path):
    evaluation = ConfigurationEvaluation()
    trainer, _ = fit(tmp_path, evaluation)
    assert evaluation.history[-1]["in_use_loss"] == pytest.approx(loss_of(trainer), abs=1e-6)
    assert evaluation.ranked.as_is is not None
    assert evaluation.report is None


def test_metrics_of_an_epoch_can_be_monitored(tmp_path):
    stopping = EarlyStopping("bln_search/recommended_loss", min_delta=100.0, patience=1)
    evaluation = ConfigurationEvaluation(every=1)
    trainer, _ = fit(tmp_path, stopping, evaluation, max_epochs=9)
    assert trainer.current_epoch == 2
    assert [metrics["epoch"] for metrics in evaluation.history] == [1, 2]
    assert trainer.callback_metrics["bln_search/recommended_loss"].item() == pytest.approx(
        evaluation.history[-1]["recommended_loss"], abs=1e-6
    )


def test_csv_and_tensorboard_get_metrics_and_table(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    evaluation = ConfigurationEvaluation()
    loggers = [CSVLogger(tmp_path), TensorBoardLogger(tmp_path, name="board")]
    fit(tmp_path, evaluation, logger=loggers)
    expected = evaluation.history[-1]["recommended_loss"]
    folder = Path(loggers[0].log_dir)
    rows = list(csv.DictReader((folder / "metrics.csv").read_text().splitlines()))
    assert float(rows[-1]["bln_search/recommended_loss"]) == expected
    assert (folder / "bln_search_ranked.csv").read_text() == evaluation.ranked.to_csv()
    events = accumulator.EventAccumulator(loggers[1].log_dir)
    events.Reload()
    assert events.Scalars("bln_search/recommended_loss")[-1].value == pytest.approx(expected)
    (text,) = events.Tensors("bln_search/ranked/text_summary")
    assert b"Recommended:" in text.tensor_proto.string_val[0]


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # of MLflow's own tables
def test_mlflow_gets_metrics_and_tables_as_artifacts(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    logger = MLFlowLogger(tracking_uri=uri, artifact_location=(tmp_path / "artifacts").as_uri())
    evaluation = ConfigurationEvaluation(blends=[0.5])
    fit(tmp_path, evaluation, logger=logger)
    run = mlflow.MlflowClient(uri).get_run(logger.run_id)
    assert run.data.metrics["bln_search/recommended_loss"] == evaluation.history[-1]["recommended_loss"]
    assert "bln_search/loss/BB--_frozen_0.5" in run.data.metrics
    (table,) = tmp_path.glob("artifacts/*/artifacts/bln_search/ranked.csv")
    assert table.read_text() == evaluation.ranked.to_csv()


def test_weights_and_biases_gets_metrics_and_a_table(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger(save_dir=tmp_path, offline=True)
    evaluation = ConfigurationEvaluation()
    fit(tmp_path, evaluation, logger=logger)
    summary = dict(logger.experiment.summary)
    logger.experiment.finish()
    assert summary["bln_search/recommended_loss"] == evaluation.history[-1]["recommended_loss"]
    assert list(tmp_path.rglob("*ranked*.table.json"))


def test_limits_of_mini_batches_are_obeyed(tmp_path):
    evaluation = ConfigurationEvaluation()
    fit(tmp_path, evaluation, limit_train_batches=3, limit_val_batches=2)
    assert evaluation.ranked.examples_by_loader == {"train_loader": 30, "validation_loader": 20}
    fit(tmp_path, evaluation, fast_dev_run=True)
    assert evaluation.ranked.examples_by_loader == {"train_loader": 10, "validation_loader": 10}


def test_a_stream_is_read_as_far_as_it_was_trained_on(tmp_path):
    def run(*callbacks):
        streams = [DataLoader(Stream(Points(60, seed), length), batch_size=10) for seed, length in ((1, None), (2, 40))]
        return fit(tmp_path, *callbacks, loaders=streams, max_steps=7, max_epochs=-1)[1]

    evaluation = ConfigurationEvaluation()
    assert are_equal(run(), run(evaluation))
    assert evaluation.ranked.examples_by_loader == {"train_loader": 70, "validation_loader": 40}


@pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`")
@pytest.mark.parametrize("case", ["limit", "none"])
def test_without_validation_mini_batches_a_warning_says_what_to_give(tmp_path, case):
    evaluation = ConfigurationEvaluation()
    training, validation = make_loaders()
    options = {"limit_val_batches": 0} if case == "limit" else {}
    with pytest.warns(UserWarning, match="the training goes on .*no validation mini-batches .*limit_val"):
        fit(tmp_path, evaluation, loaders=(training, validation if case == "limit" else None), **options)
    assert isinstance(evaluation.error, DataError)
    own = ConfigurationEvaluation(validation_loader=validation)
    fit(tmp_path, own, loaders=(training,), limit_val_batches=0)
    assert own.ranked is not None


def test_several_validation_loaders_are_conditions(tmp_path):
    training, validation = make_loaders()
    other = DataLoader(Points(30, 3), batch_size=10)
    evaluation = ConfigurationEvaluation(every=1, apply=True)
    fit(tmp_path, evaluation, loaders=(training, [validation, other]))
    assert set(evaluation.ranked) == {"loader_0", "loader_1"}
    assert "loader_1/recommended_loss" in evaluation.history[-1]


def test_several_training_loaders_need_one_for_the_population(tmp_path):
    training, validation = make_loaders()

    class Pair(Classifier):
        def training_step(self, batch, index):
            return super().training_step(batch["a"], index)

    loaders = {"a": training, "b": training}, validation
    with pytest.warns(UserWarning, match="several loaders for training: give train_loader="):
        fit(tmp_path, ConfigurationEvaluation(), module=Pair(), loaders=loaders)
    evaluation = ConfigurationEvaluation(train_loader=training)
    fit(tmp_path, evaluation, module=Pair(), loaders=loaders)
    assert evaluation.ranked is not None


@pytest.mark.parametrize(
    "averaging",
    [lambda: StochasticWeightAveraging(0.001, swa_epoch_start=1), lambda: EMAWeightAveraging(decay=0.5)],
    ids=["SWA", "EMA"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_last_evaluation_is_of_averaged_weights(tmp_path, averaging, is_first):
    evaluation = ConfigurationEvaluation(every=1)
    callbacks = [evaluation, averaging()] if is_first else [averaging(), evaluation]
    trainer, state = fit(tmp_path, *callbacks, max_epochs=3)
    assert evaluation.history[-1]["in_use_loss"] == pytest.approx(loss_of(trainer), abs=1e-6)
    assert are_equal(state[0], fit(tmp_path, averaging(), max_epochs=3)[1][0])


@pytest.mark.filterwarnings("ignore:this layer uses population values that were set before")
def test_the_recommended_configuration_is_tested_when_it_is_applied(tmp_path):
    evaluation = ConfigurationEvaluation(every=1, apply=True)
    checkpoint = ModelCheckpoint(tmp_path, save_last=True)
    module = Classifier(bln_search.convert(make_network()))
    trainer, _ = fit(tmp_path, evaluation, checkpoint, module=module, enable_checkpointing=True)
    (tested,) = trainer.test(module, make_loaders()[1], verbose=False)
    assert tested["validation loss"] == pytest.approx(evaluation.history[-1]["recommended_loss"], abs=1e-6)
    trainer.fit_loop.max_epochs = 3
    trainer.fit(module, *make_loaders())
    assert evaluation.history[-1]["epoch"] == 3
    assert loss_of(trainer) == pytest.approx(evaluation.history[-1]["recommended_loss"], abs=1e-6)


def test_mini_batches_pass_the_hooks_of_the_user_in_their_stage(tmp_path):
    stages = set()

    class BeforeEvaluation(Callback):
        def on_train_end(self, *_):
            stages.clear()

    class Hooked(Classifier):
        def on_after_batch_transfer(self, batch, index):
            stages.add((self.trainer.training, self.trainer.validating, index))
            return batch["image"], batch["class"]

    def collate(pairs):
        x, y = zip(*pairs, strict=True)
        return {"image": torch.stack(x), "class": torch.stack(y)}

    module, evaluation = Hooked(), ConfigurationEvaluation()
    loaders = make_loaders(collate_fn=collate)
    trainer, _ = fit(tmp_path, evaluation, BeforeEvaluation(), module=module, loaders=loaders)
    assert evaluation.error is None
    assert stages == {(True, False, 0), (False, True, 0)}
    assert evaluation.history[-1]["in_use_loss"] == pytest.approx(loss_of(trainer, loaders[1]), abs=1e-6)


def test_the_code_of_the_page_runs_as_it_stands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    exec(code_of_section("Lightning"), {"model": Classifier(), "datamodule": Data()})
    assert "Recommended:" in capsys.readouterr().out


def test_a_module_without_normalization_is_reported_at_the_start(tmp_path):
    class Order(Callback):
        def on_train_batch_start(self, *_):
            assert evaluation.error is not None

    evaluation = ConfigurationEvaluation(every=1, apply=True)
    module = Classifier(nn.Linear(6, 2))
    with pytest.warns(UserWarning, match="cannot evaluate this network; the training goes on .*no BatchNorm or LayerN"):
        fit(tmp_path, evaluation, Order(), module=module)
    assert evaluation.history == []
    with pytest.raises(ModelError, match="no BatchNorm or LayerNorm"):
        fit(tmp_path, ConfigurationEvaluation(on_error="raise"), module=Classifier(nn.Linear(6, 2)))


def test_values_that_a_forward_pass_logs_are_those_of_the_training(tmp_path):
    class Logging(Classifier):
        def forward(self, x):
            y = self.network(x)
            self.log("mean", y.mean())
            return y

    runs = [fit(tmp_path, *each, module=Logging())[0] for each in ([], [ConfigurationEvaluation(every=1)])]
    assert runs[0].callback_metrics["mean"].item() == runs[1].callback_metrics["mean"].item()


def test_errors_of_the_user_come_through_without_an_evaluation(tmp_path):
    class Failing(Classifier):
        def training_step(self, batch, index):
            raise ZeroDivisionError

    evaluation = ConfigurationEvaluation()
    with pytest.raises(ZeroDivisionError):
        fit(tmp_path, evaluation, module=Failing())
    assert evaluation.ranked is None


def test_a_failing_evaluation_leaves_a_finished_training(tmp_path):
    def fail(model, batch):
        raise RuntimeError("no forward")

    with pytest.warns(UserWarning, match="could not evaluate .* after epoch 2; .*no forward|cannot evaluate .*no forw"):
        _, state = fit(tmp_path, ConfigurationEvaluation(forward=fail, apply=True))
    assert are_equal(state, fit(tmp_path)[1])
    with pytest.raises(DataError, match="no forward"):
        fit(tmp_path, ConfigurationEvaluation(forward=fail, on_error="raise"))


DISTRIBUTED = """
import warnings
warnings.simplefilter("ignore")
import torch, lightning
from torch.utils.data import DataLoader
from tests.integrations.small_trainings import Points
from tests.integrations.test_lightning import Classifier
from bln_search.integrations.lightning import ConfigurationEvaluation

def main():
    evaluation = ConfigurationEvaluation(every=1, apply=True, progress=False)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[evaluation])
    plain = Classifier(torch.nn.Linear(6, 2))  # which only the first process finds impossible
    loaders = DataLoader(Points(60, 1), 10), DataLoader(Points(40, 2), 10)
    lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False, callbacks=[
        ConfigurationEvaluation(every=1, apply=True)], enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False).fit(plain, *loaders)
    module = Classifier()
    trainer.fit(module, DataLoader(Points(60, 1), 10, shuffle=True), DataLoader(Points(40, 2), 10))
    metric = trainer.callback_metrics["bln_search/recommended_loss"].item()
    total = sum(x.double().sum().item() for x in module.state_dict().values() if x.is_floating_point())
    configuration = module.network[1].configuration
    print("RANK", trainer.global_rank, len(evaluation.history), metric, configuration, total, flush=True)

if __name__ == "__main__":
    main()
"""


def test_one_of_two_processes_evaluates_and_both_apply(tmp_path):
    (tmp_path / "run.py").write_text(DISTRIBUTED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    lines = sorted(line.split() for line in process.stdout.splitlines() if line.startswith("RANK"))
    assert [(line[1], line[2]) for line in lines] == [("0", "2"), ("1", "0")]
    assert lines[0][3:5] == lines[1][3:5]  # the metric and the configuration


OF_PYTORCH_LIGHTNING = """
import sys
import warnings
warnings.simplefilter("ignore")
if {is_alone}:
    sys.modules["lightning"] = sys.modules["lightning.pytorch"] = None
import pytorch_lightning
import torch
from bln_search.integrations.lightning import ConfigurationEvaluation
from tests.integrations.small_trainings import make_loaders, make_network

class Classifier(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = make_network()

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("validation loss", torch.nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

evaluation = ConfigurationEvaluation(every=1, on_error="raise")
trainer = pytorch_lightning.Trainer(max_epochs=2, accelerator="cpu", callbacks=[evaluation], logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Classifier(), *make_loaders())
print(len(evaluation.history), trainer.callback_metrics["bln_search/recommended_loss"].item())
"""


@pytest.mark.parametrize("is_alone", [False, True])
def test_trainers_of_the_package_pytorch_lightning_take_the_callback(tmp_path, is_alone):
    pytest.importorskip("pytorch_lightning")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.run(
        [sys.executable, "-c", OF_PYTORCH_LIGHTNING.format(is_alone=is_alone)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1].startswith("2 0.")


def test_the_state_of_a_module_does_not_contain_its_trainer(tmp_path):
    module = Classifier()
    without = len(NetworkState(module)._cells)
    fit(tmp_path, module=module)
    assert module.trainer is not None
    assert len(NetworkState(module)._cells) <= without + 5  # of attributes that the trainer sets
