"""Lightning: a callback that evaluates a module under every configuration after epochs and at the end of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from bln_search.api.evaluate import EvaluationOptions
from bln_search.api.inputs.loaders import Loader
from bln_search.core.errors import MissingPackageError
from bln_search.integrations.class_names import has_class_name
from bln_search.integrations.evaluation_results import EvaluationResults
from bln_search.integrations.lightning_loaders import find_training_loader, find_validation_loaders
from bln_search.integrations.lightning_tables import log_table
from bln_search.integrations.ranked_metrics import Ranked
from bln_search.integrations.training_evaluation import OnError, Splits, TrainingEvaluation

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError as missing:
        try:
            from pytorch_lightning import Callback
        except ModuleNotFoundError:
            raise MissingPackageError(missing.name, "lightning") from missing

_PREFIX = "bln_search/"

_SHARDED = ("DeepSpeedStrategy", "FSDPStrategy", "ModelParallelStrategy", "XLAFSDPStrategy")
"""Strategies under which no process has all parameters."""


class ConfigurationEvaluation(EvaluationResults, Callback):
    """Evaluates the module under every configuration of its normalization layers, and logs the ranked table.

    Metrics go to all loggers of the trainer, as `bln_search/recommended_loss`; those of an epoch can be monitored. The
    table goes to loggers that take tables or texts. The training is as without the callback, bit for bit: parameters,
    running statistics, optimizers and random numbers. In a distributed training the first process evaluates its part
    of the data, and the others wait; parameters that are sharded cannot be evaluated.

    The last evaluation follows callbacks that average weights. It is in the precision of the parameters, without
    autocast. A fit that raises an error or is interrupted has none.

    Args:
        every: Evaluate after each `every` epochs, and at the end; None for the end alone.
        check: Run `bln_search.check` too, for networks whose layers store statistics.
        apply: Apply the recommended configuration at the end, so that `trainer.test` uses it. The module is converted
            with `method="same"` if it was not; checkpoints of the fit are without the configuration.
        on_error: `warn`: an evaluation that fails is a warning, and the training goes on. `raise`: it is an error.
        train_loader: Mini-batches for the population values; by default the training loader of the trainer.
        validation_loader: Mini-batches that rank, or a dictionary of several conditions; by default the validation
            loaders of the trainer: a list gives the conditions `loader_0`, `loader_1`, ...
        options: Further arguments of `evaluate_configurations`, as `score`, `forward` and `target`. By default the
            module is called with the inputs of a mini-batch, and the loss is cross-entropy.

    Attributes:
        ranked: The ranked table of the latest evaluation; None before the first one.
        report: The report of the latest check; None without one.
        history: The metrics of each evaluation by name, with the number of finished epochs as `epoch`.
        error: Why the latest evaluation failed; None if it did not.

    Raises:
        ValueError: An argument is invalid.
        TypeError: An argument has a wrong type.

    Example:
        evaluation = ConfigurationEvaluation(every=5)
        trainer = lightning.Trainer(max_epochs=20, callbacks=[evaluation])
        trainer.fit(model, datamodule)
        print(evaluation.ranked)
    """

    def __init__(
        self,
        *,
        every: int | None = None,
        check: bool = False,
        apply: bool = False,
        on_error: OnError = "warn",
        train_loader: Loader | None = None,
        validation_loader: Loader | Mapping[str, Loader] | None = None,
        **options: Unpack[EvaluationOptions],
    ) -> None:
        super().__init__()
        self._evaluation = TrainingEvaluation(every, with_check=check, on_error=on_error, **options)
        self._apply, self._train_loader, self._validation_loader = apply, train_loader, validation_loader

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Let later hooks of this callback come last, after those that average weights."""
        trainer.callbacks = [*(each for each in trainer.callbacks if each is not self), self]  # type: ignore[attr-defined]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Report now what could not be evaluated."""
        if trainer.is_global_zero:
            make_splits = self._make_splits(trainer, pl_module)
            self._evaluation.start(pl_module, make_splits, refusal=_refuse_strategy(trainer))
        self._evaluation.is_possible = trainer.strategy.broadcast(self._evaluation.is_possible)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate the module if it is due, and log the metrics with those of the epoch."""
        epochs = trainer.current_epoch + 1
        if self._evaluation.is_due(epochs):
            metrics = self._evaluate(trainer, pl_module, epochs)
            pl_module.log_dict({f"{_PREFIX}{name}": value for name, value in metrics.items()})

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate the module, and log metrics and table, while it is still on its device."""
        if not trainer.is_global_zero:
            return
        metrics: Mapping[str, float] = {}
        if self._evaluation.is_due_at_end(pl_module):
            metrics = self._evaluate_here(trainer, pl_module, trainer.current_epoch)
        if self.ranked is not None and self._evaluation.is_evaluated:
            with self._evaluation.reported_errors("could not log the ranked table"):
                _log_at_end(trainer, metrics, self.ranked)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Apply the recommended configuration, after the last checkpoint."""
        if self._apply:
            choice = self._evaluation.choose_recommended() if trainer.is_global_zero else None
            self._evaluation.apply(pl_module, trainer.strategy.broadcast(choice))

    def _evaluate(self, trainer: Trainer, pl_module: LightningModule, epochs: int) -> Mapping[str, float]:
        """Evaluate in the first process, and return the metrics in every process."""
        metrics = self._evaluate_here(trainer, pl_module, epochs) if trainer.is_global_zero else {}
        return trainer.strategy.broadcast(metrics)

    def _evaluate_here(self, trainer: Trainer, pl_module: LightningModule, epochs: int) -> Mapping[str, float]:
        return self._evaluation.evaluate(pl_module, self._make_splits(trainer, pl_module), epochs)

    def _make_splits(self, trainer: Trainer, pl_module: LightningModule) -> Callable[[], Splits]:
        def make_splits() -> Splits:
            pl_module.log = pl_module.log_dict = _log_nothing  # type: ignore[method-assign]  # the evaluation restores them
            training, validation = self._train_loader, self._validation_loader
            return (
                find_training_loader(trainer) if training is None else training,
                find_validation_loaders(trainer) if validation is None else validation,
            )

        return make_splits


def _log_nothing(*_: Any, **__: Any) -> None:
    """Take the place of `log` where a forward pass logs, as passes of an evaluation are none of the training."""


def _log_at_end(trainer: Trainer, metrics: Mapping[str, float], ranked: Ranked) -> None:
    step = max(trainer.global_step - 1, 0)  # as of the metrics of the last epoch
    for logger in trainer.loggers:
        if metrics:
            logger.log_metrics({f"{_PREFIX}{name}": value for name, value in metrics.items()}, step)
        log_table(logger, ranked, step)


def _refuse_strategy(trainer: Trainer) -> str | None:
    if has_class_name(trainer.strategy, _SHARDED):
        return (
            f"the parameters are sharded by {type(trainer.strategy).__name__}: evaluate the trained network afterwards"
        )
    return None
