"""Estimate the stored statistics of a network again, and say whether that helps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.api.arguments import check_network_is_module, parse_flag
from bln_search.api.check.calibration import CalibratedStatistics, calibrate_in_stages, check_finite
from bln_search.api.check.check import find_network_device, require_statistics_layers
from bln_search.api.check.layers import Moments, write_moments
from bln_search.api.check.measurement import MeasuredNetwork
from bln_search.api.check.wrappers import unwrap_network
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.api.inputs.score import UserScore, last_score_had_correctness, parse_score
from bln_search.api.progress_lines import ProgressLines
from bln_search.evaluation.adapted_network import Forward
from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import Calibration
from bln_search.ranking.paired.control import compare_with_control
from bln_search.ranking.selection.expected_loss import default_margin
from bln_search.reports.check.table import format_difference
from bln_search.reports.formatting import format_loss
from bln_search.tasks.score import Score


@dataclass(frozen=True)
class Certificate:
    """What new statistics do to the loss on validation data.

    Attributes:
        before: Mean loss with the statistics that were stored; None if it was not finite.
        after: Mean loss with the new ones.
        difference: Loss after minus loss before, over the same examples; None without a loss before.
        calibration: Loss against the number of examples from which the statistics were estimated.
        margin: Difference of mean losses up to which networks are practically equal.
        is_kept: Whether the network has the new statistics. It keeps its own where these are significantly better.
    """

    before: float | None
    after: float
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
        before = "not finite" if self.before is None else format_loss(self.before)
        change = "" if self.difference is None else f", difference {format_difference(self.difference)}"
        lines = [f"loss before {before}, after {format_loss(self.after)}{change}"]
        lines += [
            f"  {stage.examples:>8,} examples: loss {format_loss(stage.loss)}" for stage in self.calibration.stages
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
        validation_loader: Mini-batches with targets for the certificate. Statistics are then estimated from 1, 2, 4, …
            mini-batches, until two doublings change the loss by less than the margin.
        forward: Calls the network, as of `evaluate_configurations`.
        target: Returns the targets, as of `evaluate_configurations`.
        score: The loss of the certificate.
        margin: Difference of mean losses up to which networks are practically equal; by default as of `check`.
        certificate: Return the certificate too, which needs `validation_loader`.
        progress: Print a line on standard error every ten seconds, after the first ten.

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
    if parse_flag("certificate", certificate) and validation_loader is None:
        raise ValueError("certificate=True compares losses on validation data: give validation_loader")
    lines, scoring = ProgressLines(enabled=parse_flag("progress", progress)), parse_score(score)
    inner, _ = unwrap_network(network)
    layers = require_statistics_layers(inner)
    named = [("loader", loader)] + ([] if validation_loader is None else [("validation_loader", validation_loader)])
    check_iterators_read_once(named)
    inputs, *validation = (RoleLoader(each, name) for name, each in named)
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
        moments = measured.estimate_from_training(inputs).moments
        check_finite(moments, inputs.name)
        _write(layers, moments)
        return network
    chosen_margin = _choose_margin(margin, measured, scoring)
    calibrated = calibrate_in_stages(
        measured,
        measured.adapter.iter_population_inputs(inputs),
        inputs.name,
        chosen_margin,
    )
    result = _certify(calibrated, chosen_margin)
    if result.is_kept:
        _write(layers, calibrated.moments)
    else:
        warnings.warn(
            f"the statistics of loader make the network worse ({result.before:.4f} to {result.after:.4f}): it keeps "
            "its own",
            stacklevel=2,
        )
    return (network, result) if certificate else network


def _certify(calibrated: CalibratedStatistics, margin: float) -> Certificate:
    has_loss = bool(np.isfinite(calibrated.before).all())
    difference = compare_with_control(calibrated.after[None], calibrated.before)[0] if has_loss else None
    return Certificate(
        before=float(calibrated.before.mean()) if has_loss else None,
        after=float(calibrated.after.mean()),
        difference=difference,
        calibration=calibrated.calibration,
        margin=margin,
        is_kept=difference is None or not difference.low > 0,
    )


def _choose_margin(margin: float | None, measured: MeasuredNetwork, scoring: Score) -> float:
    if margin is not None:
        return margin
    deployed = measured.measure(measured.batch_size)
    assert deployed is not None  # statistics are stored
    loss = deployed[0].mean_loss
    has_correctness = last_score_had_correctness(scoring)
    return default_margin(loss if math.isfinite(loss) else 0.0, has_correctness=has_correctness)


def _write(layers: Mapping[str, nn.Module], moments: Mapping[str, Moments]) -> None:
    """Store statistics, and count their mini-batches as updates."""
    for name, of_layer in moments.items():
        write_moments(layers[name], of_layer)
        updates = getattr(layers[name], "num_batches_tracked", None)
        if isinstance(updates, Tensor):
            updates.fill_(of_layer.batches)
