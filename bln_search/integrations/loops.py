"""Evaluation of a network between the epochs of a training loop of the user."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from torch import nn

from bln_search.api.arguments import check_network_is_module
from bln_search.api.evaluate import EvaluationOptions
from bln_search.api.inputs.evaluation_data import parse_condition_loaders
from bln_search.api.inputs.loaders import Loader, check_is_loader, check_iterators_read_once
from bln_search.integrations.training_evaluation import OnError, Splits, TrainingEvaluation


class watch(TrainingEvaluation):  # noqa: N801 - a context manager, called like a function
    """A context around a training loop, in which the network is evaluated after epochs and at the end.

    The training is as without it, bit for bit: parameters, running statistics and random numbers. If the loop raises an
    error, there is no evaluation at the end.

    Args:
        network: The network that is trained. Without layers of bln-search it is converted for each evaluation alone.
        train_loader: As of `evaluate_configurations`.
        validation_loader: As of `evaluate_configurations`; a dictionary for several conditions.
        every: Evaluate after each `every` epochs, and at the end; None for the end alone.
        check: Run `bln_search.check` too.
        apply: Apply the recommended configuration at the end, so that `network.eval()` uses it.
        on_error: `warn`: an evaluation that fails is a warning, and the training goes on. `raise`: it is an error.
        options: Further arguments of `evaluate_configurations`.

    Attributes:
        ranked: The ranked table of the latest evaluation; None before the first one.
        report: The report of the latest check; None without one.
        history: The metrics of each evaluation by name, with the number of finished epochs as `epoch`.
        error: Why the latest evaluation failed; None if it did not.

    Raises:
        DataError: A loader cannot be read again.
        ModelError: `network` is no network.
        ValueError: Another argument is invalid.

    Example:
        with watch(model, train_loader, validation_loader, every=1) as watched:
            for epoch in range(10):
                train_one_epoch(model, train_loader)
                print(watched.end_epoch())
        print(watched.gaps, watched.ranked)
    """

    def __init__(
        self,
        network: nn.Module,
        train_loader: Loader,
        validation_loader: Loader | dict[str, Loader],
        *,
        every: int | None = None,
        check: bool = False,
        apply: bool = False,
        on_error: OnError = "warn",
        **options: Unpack[EvaluationOptions],
    ) -> None:
        super().__init__(every, with_check=check, on_error=on_error, **options)
        check_network_is_module(network, "watch(network, train_loader, validation_loader)")
        conditions = parse_condition_loaders(validation_loader, None).items()
        named = [(f"{name or 'validation'}_loader", loader) for name, (loader, _) in conditions]
        loaders = [("train_loader", train_loader), *named]
        for name, loader in loaders:
            check_is_loader(loader, name)
        check_iterators_read_once(loaders, readers="training and evaluation read it")
        self._network, self._apply = network, apply
        self._splits: Splits = (train_loader, validation_loader)
        self._epochs = 0

    @property
    def gaps(self) -> dict[int, float]:
        """By epoch, the loss in evaluation mode minus that with mini-batch statistics, as in training mode.

        Empty for networks without a value of both: of LayerNorm alone, or converted by another method than `same`.
        """
        return {
            int(metrics["epoch"]): metrics["evaluation_gap"] for metrics in self.history if "evaluation_gap" in metrics
        }

    def end_epoch(self) -> dict[str, float]:
        """Count an epoch of training. Evaluate the network if it is due, and return the metrics by name."""
        self._epochs += 1
        return self._evaluate_now() if self.is_due(self._epochs) else {}

    def _evaluate_now(self) -> dict[str, float]:
        return self.evaluate(self._network, lambda: self._splits, self._epochs)

    def __enter__(self) -> Self:
        """Begin the training, and report what could not be evaluated."""
        self.start(self._network, lambda: self._splits)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Evaluate the network at the end, unless the loop raised an error."""
        if kind is not None:
            return
        if self.is_due_at_end(self._network):
            self._evaluate_now()
        if self._apply:
            self.apply(self._network, self.choose_recommended())
