"""The Trainer of Hugging Face: a callback that evaluates its model under every configuration."""

# ruff: noqa: ARG002 - events have the arguments of the base class

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from bln_search.api.evaluate import EvaluationOptions
from bln_search.api.inputs.loaders import Loader
from bln_search.core.errors import DataError, MissingPackageError
from bln_search.integrations.evaluation_results import EvaluationResults
from bln_search.integrations.loader_copies import LimitedLoader, copy_loader
from bln_search.integrations.training_evaluation import OnError, Splits, TrainingEvaluation

try:
    from accelerate.utils import broadcast_object_list
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ModuleNotFoundError as missing:
    raise MissingPackageError(missing.name, "transformers") from missing

_PREFIX = "eval_bln_search/"
"""The Trainer reports metrics with `eval_` in the group `eval/`."""


class ConfigurationEvaluationCallback(EvaluationResults, TrainerCallback):
    """Evaluates the model under every configuration of its normalization layers, and logs the metrics.

    Metrics go through `trainer.log`, as `eval_bln_search/recommended_loss`, so that everything in `report_to` shows
    them. The training is as without the callback, bit for bit: parameters, running statistics, optimizer and random
    numbers. In a distributed training the first process evaluates its part of the data, and the others wait; parameters
    that are sharded (FSDP, DeepSpeed) cannot be evaluated. The last evaluation follows `load_best_model_at_end`. It is
    in the precision of the parameters, without autocast.

    Args:
        trainer: The trainer, to which the callback is added.
        every: Evaluate after each `every` epochs, and at the end; None for the end alone.
        check: Run `bln_search.check` too, for networks whose layers store statistics.
        apply: Apply the recommended configuration at the end, so that `trainer.evaluate` and `trainer.predict` use it.
            The model is converted with `method="same"` if it was not; checkpoints are without the configuration.
        on_error: `warn`: an evaluation that fails is a warning, and the training goes on. `raise`: it is an error.
        train_loader: Mini-batches for the population values; by default those of the trainer.
        validation_loader: Mini-batches that rank, or a dictionary of several conditions; by default those of the
            trainer's `eval_dataset`, which may be a dictionary.
        options: Further arguments of `evaluate_configurations`, as `score`, `forward` and `target`. By default the
            model is called with the keys of a mini-batch that its `forward` takes, without the labels, and the loss is
            cross-entropy.

    Attributes:
        ranked: The ranked table of the latest evaluation; None before the first one.
        report: The report of the latest check; None without one.
        history: The metrics of each evaluation by name, with the number of finished epochs as `epoch`.
        error: Why the latest evaluation failed; None if it did not.

    Raises:
        ValueError: An argument is invalid.
        TypeError: An argument has a wrong type.

    Example:
        trainer = transformers.Trainer(model, arguments, train_dataset=training, eval_dataset=validation)
        evaluation = ConfigurationEvaluationCallback(trainer, every=1)
        trainer.add_callback(evaluation)
        trainer.train()
        print(evaluation.ranked)
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        every: int | None = None,
        check: bool = False,
        apply: bool = False,
        on_error: OnError = "warn",
        train_loader: Loader | None = None,
        validation_loader: Loader | Mapping[str, Loader] | None = None,
        **options: Unpack[EvaluationOptions],
    ) -> None:
        if not isinstance(trainer, Trainer):
            raise TypeError(f"trainer has the type {type(trainer).__name__}: give the transformers.Trainer")
        self._evaluation = TrainingEvaluation(every, with_check=check, on_error=on_error, **options)
        self._trainer, self._apply = trainer, apply
        self._train_loader, self._validation_loader = train_loader, validation_loader

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin a training. Later events come to this callback first, before those of trackers that end their run."""
        handler = self._trainer.callback_handler
        handler.callbacks = [self, *(each for each in handler.callbacks if each is not self)]
        if state.is_world_process_zero:
            make_splits = self._make_splits(state, kwargs["train_dataloader"])
            self._evaluation.start(kwargs["model"], make_splits, refusal=self._refuse_sharding())

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the model if it is due, and log the metrics."""
        epochs = _count_epochs(state)
        if epochs == state.epoch and self._evaluation.is_due(epochs):
            self._evaluate(state, epochs, **kwargs)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the model, log the metrics, and apply the recommended configuration."""
        if state.is_world_process_zero and self._evaluation.is_due_at_end(kwargs["model"]):
            self._evaluate(state, _count_epochs(state), **kwargs)
        if self._apply:
            choice = self._evaluation.choose_recommended() if state.is_world_process_zero else None
            self._evaluation.apply(kwargs["model"], broadcast_object_list([choice])[0])

    def _evaluate(self, state: TrainerState, epochs: int, *, model: Any, train_dataloader: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return

        metrics = self._evaluation.evaluate(model, self._make_splits(state, train_dataloader), epochs)
        if metrics:
            self._trainer.log({f"{_PREFIX}{name}": value for name, value in metrics.items()})

    def _make_splits(self, state: TrainerState, loader: Any) -> Callable[[], Splits]:
        return lambda: (self._make_training_loader(loader, state), self._make_validation_loaders())

    def _make_training_loader(self, loader: Any, state: TrainerState) -> Loader:
        if self._train_loader is not None:
            return self._train_loader
        steps = state.global_step * self._trainer.args.gradient_accumulation_steps  # bounds a stream that does not end
        is_stream = not hasattr(getattr(loader, "dataset", loader), "__len__")
        return LimitedLoader(copy_loader(loader), max(steps, 1)) if is_stream else loader

    def _make_validation_loaders(self) -> Loader | Mapping[str, Loader]:
        if self._validation_loader is not None:
            return self._validation_loader
        datasets = self._trainer.eval_dataset
        if datasets is None:
            raise DataError("the trainer has no eval_dataset: give one, or validation_loader=")
        if isinstance(datasets, dict):
            return {name: self._make_validation_loader(name) for name in datasets}
        return self._make_validation_loader(None)

    def _make_validation_loader(self, name: str | None) -> Loader:
        """The loader of one data set, which accelerate forgets again unless the trainer keeps it."""
        known = self._trainer.accelerator._dataloaders
        count = len(known)
        loader = self._trainer.get_eval_dataloader(name)
        if not self._trainer.args.dataloader_persistent_workers:
            del known[count:]
        return loader

    def _refuse_sharding(self) -> str | None:
        if self._trainer.is_fsdp_enabled or self._trainer.is_deepspeed_enabled:
            return "its parameters are sharded by FSDP or DeepSpeed: evaluate the trained network afterwards"
        return None


def _count_epochs(state: TrainerState) -> int:
    return int(state.epoch or 0)
