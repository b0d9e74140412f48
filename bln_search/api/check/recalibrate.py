"""Estimate the stored statistics of a network again, and say whether that helps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bln_search.api.arguments import check_network_is_module, parse_flag
from bln_search.api.check.calibration import (
    CalibratedStatistics,
    calibrate_in_stages,
    check_finite,
    compare_losses,
    finite_mean,
)
from bln_search.api.check.check import check_margin, find_network_device, require_statistics_layers
from bln_search.api.check.layers import Moments, write_moments
from bln_search.api.check.measurement import MeasuredNetwork
from bln_search.api.check.wrappers import unwrap_network
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.api.inputs.score import UserScore, parse_score
from bln_search.api.progress_lines import ProgressLines
from bln_search.evaluation.adapted_network import Forward
from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import Calibration
from bln_search.reports.check.table import format_difference
from bln_search.reports.formatting import format_loss


@dataclass(frozen=True)
class Certificate:
    """What new statistics do to the loss on validation data.

    Attributes:
        before: Mean loss with the statistics that were stored; None if it was not finite.
        after: Mean loss with the new ones; None if it is not finite.
        difference: Loss after minus loss before, over the same examples; None where one is not finite.
        calibration: Loss against the number of examples from which the statistics were estimated.
        margin: Difference of mean losses up to which networks are practically equal.
        is_kept: Whether the network has the new statistics. It keeps its own where these are significantly better.
    """

    before: float | None
    after: float | None
    difference: MeanDifference | None
    calibration: Calibration
    margin: float
    is_kept: bool

    @property
    def examples(self) -> int:
        """Number of examples from which the statistics were estimated."""
        return self.calibration.stages[-1].examples

    @property
    def sufficient(self) -> int | None:
        """Number of examples after which more changed the loss by less than the margin; None if more could help."""
        return self.calibration.sufficient

    def __str__(self) -> str:
        """The result, one line for each fact."""
        change = "" if self.difference is None else f", difference {format_difference(self.difference)}"
        lines = [f"loss before {_loss_text(self.before)}, after {_loss_text(self.after)}{change}"]
        lines += [
            f"  {stage.examples:>8,} examples: loss {_loss_text(stage.loss)}" for stage in self.calibration.stages
        ]
        enough = "more examples may help" if self.sufficient is None else f"{self.sufficient:,} examples suffice"
        lines.append(f"{enough} (margin {self.margin:.2g})")
        if not self.is_kept:
            lines.append("The new statistics are worse: the network keeps its own.")
        return "\n".join(lines)


@torch.no_grad()
def recalibrate(
    network: nn.Module,
    loader: Loader,
    *,
    validation_loader: Loader | None = None,
    forward: Forward | None = None,
    target: Target | None = None,
    score: UserScore = "cross_entropy",
    margin: float | None = None,
    certificate: bool = False,
    progress: bool = True,
) -> nn.Module | tuple[nn.Module, Certificate]:
    """Estimate the statistics that a network stores again, from all mini-batches of a loader.

    Each statistic becomes the mean over mini-batches with the present weights, as by `torch.optim.swa_utils.update_bn`.
    Other modules, as dropout, are in evaluation mode meanwhile; `update_bn` sets them to training mode. Layers keep
    their classes, modes and momentum. With validation data the loss is measured before and after; the network keeps its
    statistics if the new ones are significantly worse.

    Args:
        network: The network; its stored statistics are changed in place. Wrappers such as `AveragedModel` are kept.
        loader: Mini-batches in the training size, of which targets are not read: usually the training data, or
            unlabelled inputs of the domain where the network is used.
        validation_loader: Mini-batches with targets for the certificate. The loss is measured after 1, 2, 4, …
            mini-batches of the loader, and after all of them.
        forward: Calls the network, as of `evaluate_configurations`.
        target: Returns the targets, as of `evaluate_configurations`.
        score: The loss of the certificate.
        margin: Difference of mean losses up to which networks are practically equal; by default as of `check`.
        certificate: Return the certificate too, which needs `validation_loader`.
        progress: Show a bar in a notebook, else print a line on standard error every ten seconds, after the first ten.

    Returns:
        The network; with `certificate=True` the network and a `Certificate`.

    Raises:
        ModelError: The network has no layer that stores statistics, or it cannot be evaluated. It is unchanged.
        DataError: A loader does not fit the network, or new statistics are not finite. The network is unchanged.
        ValueError: Another argument is invalid.

    Example:
        model = bln_search.recalibrate(averaged_model, train_loader)
    """
    check_network_is_module(network, "recalibrate(network, loader)")
    check_margin(margin)
    if parse_flag("certificate", certificate) and validation_loader is None:
        raise ValueError("certificate=True compares losses on validation data: give validation_loader")
    lines, scoring = ProgressLines(enabled=parse_flag("progress", progress)), parse_score(score)
    inner, _ = unwrap_network(network)
    layers = require_statistics_layers(inner)
    named = [("loader", loader)] + ([] if validation_loader is None else [("validation_loader", validation_loader)])
    check_iterators_read_once(named)
    inputs, *validation = (RoleLoader(each, name) for name, each in named)
    with lines:
        measured = MeasuredNetwork.load(
            inner,
            validation[0] if validation else None,
            [inputs],
            score=scoring,
            forward=forward,
            target=target,
            device=find_network_device(inner),
            progress=lines,
        )
        if not validation:
            training = measured.estimate_from_training(inputs)
            measured.require_use_of_layers(training.moments, training.first)
            check_finite(training.moments, inputs.name)
            _write(layers, training.moments)
            return network
        calibrated = calibrate_in_stages(measured, measured.adapter.iter_population_inputs(inputs), inputs.name, margin)
    result = _certify(calibrated)
    if result.is_kept:
        _write(layers, calibrated.moments)
    else:
        warnings.warn(
            f"the statistics of loader make the network worse ({_loss_text(result.before)} to "
            f"{_loss_text(result.after)}): it keeps its own",
            stacklevel=2,
        )
    return (network, result) if certificate else network


def _certify(calibrated: CalibratedStatistics) -> Certificate:
    difference = compare_losses(calibrated.after, calibrated.before)
    after = finite_mean(calibrated.after)
    return Certificate(
        before=finite_mean(calibrated.before),
        after=after,
        difference=difference,
        calibration=calibrated.calibration,
        margin=calibrated.margin,
        is_kept=after is not None and (difference is None or difference.low <= 0),
    )


def _loss_text(loss: float | None) -> str:
    return "not finite" if loss is None else format_loss(loss)


def _write(layers: Mapping[str, nn.Module], moments: Mapping[str, Moments]) -> None:
    """Store statistics, and count their mini-batches as updates."""
    for name, of_layer in moments.items():
        write_moments(layers[name], of_layer)
        updates = getattr(layers[name], "num_batches_tracked", None)
        if isinstance(updates, Tensor):
            updates.fill_(of_layer.batches)
