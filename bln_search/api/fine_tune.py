"""Fine-tune a network under a configuration of its normalization layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bln_search.api.apply import apply_configuration
from bln_search.api.arguments import check_network_is_module
from bln_search.api.compiled import run_compiled_networks_eagerly
from bln_search.api.evaluate import EvaluationOptions, evaluate_configurations
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.api.inputs.score import parse_score
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate, PopulationRefresh, parse_enum
from bln_search.core.errors import BatchDependenceWarning, DataError, ModelError
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.scoring import score_examples
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import (
    get_norms_by_name,
    moments_by_estimate_from_training_history,
    store_populations_from_moments,
)
from bln_search.training.fine_tuning import FineTuningEpoch, FineTuningRun

RefreshName = Literal["epoch", "never"]


@dataclass(frozen=True)
class FineTuningResult:
    """The ranked tables before and after fine-tuning.

    Attributes:
        before: Table of the network before.
        after: Table of the fine-tuned network, with population values of its weights.
        configuration: Configuration under which it was fine-tuned.
        epochs: Training loss of each complete epoch.
        diverged: Why fine-tuning stopped early; None where it did not. The network then has the weights after the last
            complete epoch.
    """

    before: RankedConfigurations
    after: RankedConfigurations
    configuration: InferenceConfiguration
    epochs: tuple[FineTuningEpoch, ...]
    diverged: str | None

    def __str__(self) -> str:
        losses = ", ".join(f"{epoch.training_loss:.4f}" for epoch in self.epochs)
        lines = [f"fine-tuned under {self.configuration}; training loss by epoch: {losses or 'none'}"]
        if self.diverged is not None:
            lines.append(f"Warning: {self.diverged}")
        return "\n".join([*lines, "", "before:", str(self.before), "", "after:", str(self.after)])


def fine_tune(
    network: nn.Module,
    choice: RankedConfiguration | InferenceConfiguration | str | None,
    train_loader: Loader,
    validation_loader: Loader,
    *,
    learning_rate: float,
    epochs: int = 3,
    refresh: RefreshName | PopulationRefresh = "epoch",
    optimizer: Callable[..., Optimizer] = torch.optim.Adam,
    test_loader: Loader | None = None,
    **options: Unpack[EvaluationOptions],
) -> tuple[nn.Module, FineTuningResult]:
    """Train a copy of `network` further under one configuration, and rank every configuration before and after.

    In the forward passes of training each statistic has the source that the configuration names: statistics with `T`
    or `M` are constants to the gradient, those with `F` are computed from the mini-batch and carry the gradient (BLN
    paper, Algorithm 2, step 13). Training under configurations with `T` may diverge where population values do not
    follow the weights; the result reports it.

    Args:
        network: Network with normalization layers of bln-search; it is not changed.
        choice: Row of a ranked table of this network, or a configuration, as in `"TTFF"`, with the population of
            `train_loader`. None for the recommended row.
        train_loader: Mini-batches of inputs and targets, for training and for the population values.
        validation_loader: Mini-batches that rank the rows before and after; see `evaluate_configurations`.
        learning_rate: Of the optimizer; a tenth of that of the training before is a start.
        epochs: Number of epochs.
        refresh: `epoch`: population values are estimated from `train_loader` before every epoch. `never`: the values of
            the row are kept.
        optimizer: Called with the parameters and `lr`.
        test_loader: Mini-batches of the test split; see `evaluate_configurations`.
        options: Further arguments of `evaluate_configurations`; its `score` is the loss of training too.

    Returns:
        The fine-tuned network in evaluation mode and with the configuration applied, and the tables. With `refresh`
        `epoch` it has the population values of its weights, with `never` those with which it was trained.

    Raises:
        ModelError: The network has no normalization layers, no parameter to train, or cannot be copied; gradients are
            disabled; or the configuration has no value, or moving statistics.
        DataError: A loader does not yield mini-batches, can be read only once, or has no target that counts.
        ValueError: Another argument is invalid.

    Example:
        tuned, result = bln_search.fine_tune(model, "TTFF", train_loader, validation_loader, learning_rate=2e-4)
        print(result.before["TTFF"], result.after["TTFF"])
    """
    refresh = parse_enum(PopulationRefresh, refresh, "refresh")
    if epochs < 1:
        raise ValueError(f"epochs is a whole number of at least 1, not {epochs}")
    _check_trainable(network)
    loaders = {"train_loader": train_loader, "validation_loader": validation_loader, "test_loader": test_loader}
    check_iterators_read_once(loaders.items(), readers="fine_tune reads it several times")
    tuned = _copy_network(network)

    def rank_all_configurations() -> RankedConfigurations:
        return evaluate_configurations(tuned, train_loader, validation_loader, test_loader=test_loader, **options)

    before = rank_all_configurations()
    if isinstance(choice, RankedConfiguration):
        row = choice
    else:
        row = before.recommended if choice is None else before[str(choice)]
    if row.configuration.is_moving:
        raise ModelError(
            f"{row} has moving statistics, which move at inference only: fine-tune under a row with T or B in place of "
            "E, as of evaluate_configurations with blends=, and evaluate the result with moving="
        )
    is_estimated_anew = refresh is PopulationRefresh.EPOCH
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchDependenceWarning)
        apply_configuration(tuned, replace(row, measured_with=None) if is_estimated_anew else row)
    trainer = _FineTuningCallbacks(tuned, train_loader, options, per_slot=row.per_slot)
    tuning = FineTuningRun(
        tuned,
        trainer.iter_epoch_mini_batches,
        trainer.compute_mini_batch_mean_loss,
        optimizer((parameter for parameter in tuned.parameters() if parameter.requires_grad), lr=learning_rate),
        epochs=epochs,
        refresh=refresh,
        estimate=trainer.refresh_population_values,
    )
    records = tuple(tuning.train_epochs())
    tuned.eval()
    if is_estimated_anew:
        trainer.refresh_population_values()
    for layer in get_norms_by_name(tuned).values():
        layer.population_outdated = False
    return tuned, FineTuningResult(before, rank_all_configurations(), row.configuration, records, tuning.diverged)


def _check_trainable(network: nn.Module) -> None:
    """Raise ModelError where no gradient can be computed."""
    check_network_is_module(network, "fine_tune(network, ...)")
    if not torch.is_grad_enabled():
        raise ModelError("fine_tune trains the network: call it outside of torch.no_grad() and torch.inference_mode()")
    parameters = list(network.parameters())
    if not any(parameter.requires_grad for parameter in parameters):
        raise ModelError(
            f"fine_tune trains the parameters that require gradients, and this {type(network).__name__} has none: call "
            "requires_grad_(True) on the layers to train"
        )
    if any(parameter.is_inference() for parameter in parameters):
        raise ModelError(
            f"this {type(network).__name__} was made in torch.inference_mode(), where no gradients are computed: make "
            "it outside"
        )


def _copy_network(network: nn.Module) -> nn.Module:
    """Return a deep copy. Raises ModelError where the network cannot be copied, or its copy cannot be trained."""
    try:
        copy = copy_network(network)
    except Exception as error:
        raise ModelError(
            f"fine_tune trains a copy of the network, and this {type(network).__name__} cannot be copied "
            f"({type(error).__name__}: {error}): remove locks, open files and connections from it, or give their owner "
            "a __deepcopy__ method"
        ) from error
    computed = next((name for name, parameter in copy.named_parameters() if not parameter.is_leaf), None)
    if computed is not None:
        raise ModelError(
            f"fine_tune trains a copy of the network, and in a copy the parameter {computed} cannot be trained, as it "
            "belongs to a scripted or traced module: fine-tune the network with the module itself"
        )
    return copy


class _FineTuningCallbacks:
    """Mini-batches, loss and population values of a network in training; options of `evaluate_configurations`."""

    def __init__(self, network: nn.Module, loader: Loader, options: Mapping[str, Any], *, per_slot: bool) -> None:
        self.network, self.per_slot = network, per_slot
        self.score = parse_score(options.get("score", "cross_entropy"))
        self.correction = parse_enum(Correction, options.get("correction", Correction.BESSEL), "correction")
        device = next(network.parameters()).device
        self.adapter = BatchAdapter(network, options.get("forward"), options.get("target"), device)
        self.loader = RoleLoader(loader, "train_loader")
        self.adapter.try_samples([self.loader], [], self.score)

    def iter_epoch_mini_batches(self) -> Any:
        """Inputs and targets of an epoch."""
        return self.adapter.iter_input_target_pairs(self.loader, self.score)

    def compute_mini_batch_mean_loss(self, batch: MiniBatch) -> tuple[Tensor, float]:
        """The mean loss of a mini-batch, and the sum of the weights of its examples."""
        inputs, targets = batch
        with self.adapter.caller.explained_failures(self.loader.name):
            outputs = self.adapter.network(inputs)
        if len(outputs) != len(targets):
            raise DataError(f"train_loader yields {len(targets)} targets for {len(outputs)} outputs")
        losses, _, weights = score_examples(self.score, outputs, targets)
        if weights is None:
            return losses.mean(), float(len(losses))
        return (weights * losses).sum() / weights.sum(), weights.sum().item()

    @run_compiled_networks_eagerly()
    def refresh_population_values(self) -> None:
        """Give the layers population values of the present weights."""
        inputs = self.adapter.iter_population_inputs(self.loader)
        with self.adapter.caller.explained_failures(self.loader.name):
            frozen = collect_moments_with_frozen_weights(self.adapter.network, inputs)
        layers = get_norms_by_name(self.network)
        moments = {**moments_by_estimate_from_training_history(layers), PopulationEstimate.FROZEN: frozen}
        store_populations_from_moments(layers, moments, self.correction, per_slot=self.per_slot)
