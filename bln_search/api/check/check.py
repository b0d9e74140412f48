"""Check a trained network: is it worse in evaluation mode than it could be, why, and what to do."""

from __future__ import annotations

import math
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import nn

from bln_search.api.arguments import check_network_is_module, parse_batch_sizes, parse_flag
from bln_search.api.check.calibration import calibrate_in_stages
from bln_search.api.check.conditions import check_condition
from bln_search.api.check.findings.all import find_causes
from bln_search.api.check.layers import find_statistics_layers, read_layers
from bln_search.api.check.measurement import MeasuredNetwork
from bln_search.api.check.observing import check_copies, observe
from bln_search.api.check.ranked import rank_variants
from bln_search.api.check.report import CheckReport
from bln_search.api.check.variants import VariantMeasurements, compare_variants
from bln_search.api.check.wrappers import unwrap_network
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.api.inputs.score import UserScore, describe_score, last_score_had_correctness, parse_score
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.errors import ModelError
from bln_search.core.version import VERSION
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.isolated_passes import untouched_networks
from bln_search.ranking.network_check import NetworkCheck, decide
from bln_search.ranking.selection.expected_loss import default_margin


def check(
    network: nn.Module,
    train_loader: Loader | None,
    validation_loader: Loader,
    *,
    at: Sequence[int] | None = None,
    conditions: Mapping[str, Loader] = MappingProxyType({}),
    target_loader: Loader | None = None,
    score: UserScore = "cross_entropy",
    forward: Forward | None = None,
    target: Target | None = None,
    copies: Sequence[nn.Module] = (),
    margin: float | None = None,
    progress: bool = True,
) -> CheckReport:
    """Check whether a trained network with batch normalization is worse in evaluation mode than it could be, and why.

    The network is measured as it is deployed, with statistics estimated again, with those of the mini-batch, and with
    the remedy of each suspected cause, on the same validation examples. It is not changed.

    Args:
        network: A trained network whose layers store `running_mean` and `running_var`, as `nn.BatchNorm2d`. In
            evaluation mode it is checked as it is; a network in training mode is checked in evaluation mode.
            `AveragedModel`, timm's `ModelEmaV2` and `V3`, `DataParallel` and compiled networks are unwrapped.
        train_loader: Mini-batches of the training data in the training size, of which targets are not read. None
            without training data: statistics are then estimated from the validation inputs alone.
        validation_loader: Mini-batches of the inference size with targets.
        at: Further mini-batch sizes at which statistics of the mini-batch are measured.
        conditions: Further mini-batches with targets by name, as corrupted images, on which the network is measured
            too.
        target_loader: Unlabelled inputs of the domain where the network is used, from which statistics are estimated.
        score: The loss, as of `evaluate_configurations`.
        forward: Calls the network, as of `evaluate_configurations`.
        target: Returns the targets, as of `evaluate_configurations`.
        copies: The same network of other processes, whose statistics are compared.
        margin: Difference of mean losses up to which networks are practically equal. By default 0.01 nats for a loss
            with correctness, otherwise 1 % of the loss.
        progress: Show a bar in a notebook, else print a line on standard error after a second, and every ten seconds.

    Returns:
        The report, which prints verdict and findings.

    Raises:
        ModelError: The network has no layer that stores statistics, or it cannot be evaluated; the message says what
            to change.
        DataError: A loader does not fit the network; the message says what to change.
        ValueError: Another argument is invalid.

    Example:
        report = bln_search.check(model, train_loader, validation_loader)
        print(report)
    """
    start = time.monotonic()
    check_network_is_module(network, "check(network, train_loader, validation_loader)")
    scoring, lines = parse_score(score), ProgressLines(enabled=parse_flag("progress", progress), delay=1.0)
    check_margin(margin)
    if not isinstance(conditions, Mapping) or not all(isinstance(name, str) for name in conditions):
        raise TypeError('conditions has a loader for each name, as in {"night": loader}')
    inner, is_average = unwrap_network(network)
    layers = require_statistics_layers(inner)
    sizes = _parse_sizes(at)
    check_copies(inner, copies)
    optional = {"train_loader": train_loader, "target_loader": target_loader}
    roles = {"validation_loader": validation_loader}
    roles |= {name: loader for name, loader in optional.items() if loader is not None}
    roles |= {f"conditions[{name!r}]": loader for name, loader in conditions.items()}
    check_iterators_read_once(list(roles.items()))
    of_roles = {name: RoleLoader(loader, name) for name, loader in roles.items()}
    readings = read_layers(layers)
    with lines, untouched_networks([inner]):  # a function that the network keeps may call it instead of the copy
        measured = MeasuredNetwork.load(
            inner,
            of_roles["validation_loader"],
            [of_roles[name] for name in optional if name in of_roles],
            score=scoring,
            forward=forward,
            target=target,
            device=find_network_device(inner),
            progress=lines,
        )
        training = measured.estimate_from_training(of_roles["train_loader"]) if "train_loader" in of_roles else None
        target_inputs = (
            list(measured.adapter.iter_population_inputs(of_roles["target_loader"]))
            if "target_loader" in of_roles
            else []
        )
        of_target = measured.estimate_from_inputs(target_inputs, "target_loader") if target_inputs else None
        variants = VariantMeasurements(measured, training, readings, of_target)
        variants.require_use_of_layers()
        variants.measure_all(sizes)
        has_correctness = last_score_had_correctness(scoring)
        chosen_margin = _choose_margin(margin, variants, has_correctness=has_correctness)
        rows = compare_variants(variants, has_correctness=has_correctness)
        seen = observe(variants, rows, inner, copies, chosen_margin, is_average=is_average)
        checked_conditions = tuple(
            check_condition(name, variants, of_roles[f"conditions[{name!r}]"], chosen_margin) for name in conditions
        )
        calibration = (
            calibrate_in_stages(measured, target_inputs, "target_loader", chosen_margin).calibration
            if target_inputs
            else None
        )
    verdict, chosen = decide(rows, chosen_margin)
    loss = describe_score(scoring)
    return CheckReport(
        NetworkCheck(
            network=type(inner).__name__,
            parameters=sum(parameter.numel() for parameter in inner.parameters()),
            layers=dict(Counter(reading.kind for reading in readings.values())),
            verdict=verdict,
            chosen=chosen,
            variants=tuple(rows),
            findings=find_causes(seen),
            dependence=seen.dependence,
            conditions=checked_conditions,
            calibration=calibration,
            margin=chosen_margin,
            loss_name=loss.name,
            loss_unit=loss.unit,
            examples=measured.num_examples - next(iter(variants.outcomes.values())).left_out,
            training_examples=0 if training is None else training.examples,
            training_batch_size=0 if training is None else training.batch_size,
            data_digest=measured.compute_data_digest(),
            versions={"python": platform.python_version(), "torch": torch.__version__, "bln-search": VERSION},
            device=str(find_network_device(inner)),
            was_in_training_mode=inner.training,
            seconds=time.monotonic() - start,
        ),
        rank_variants(variants),
    )


def check_margin(margin: float | None) -> None:
    """Raise ValueError or TypeError unless it is None or a finite number of at least 0."""
    if margin is None:
        return
    if isinstance(margin, bool) or not isinstance(margin, int | float):
        raise TypeError(f"margin is a number of at least 0, not {margin!r}")
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin is a number of at least 0, not {margin!r}")


def _parse_sizes(at: Sequence[int] | None) -> tuple[int, ...]:
    try:
        return parse_batch_sizes(at) or ()
    except ValueError as error:
        raise ValueError(str(error).replace("batch_sizes", "at")) from None


def _choose_margin(margin: float | None, variants: VariantMeasurements, *, has_correctness: bool) -> float:
    if margin is not None:
        return margin
    finite = [loss for outcomes in variants.outcomes.values() if math.isfinite(loss := outcomes.mean_loss)]
    return default_margin(min(finite, default=0.0), has_correctness=has_correctness)


def require_statistics_layers(network: nn.Module) -> Mapping[str, nn.Module]:
    """The layers that store statistics, by name. Raises ModelError without any."""
    layers = find_statistics_layers(network)
    if not layers:
        raise ModelError(
            f"this {type(network).__name__} has no layer that stores running statistics (running_mean, running_var), "
            "so its outputs do not depend on a choice of statistics: nothing to check"
        )
    return layers


def find_network_device(network: nn.Module) -> torch.device:
    """The device of the first parameter or buffer."""
    return next((values.device for values in (*network.parameters(), *network.buffers())), torch.device("cpu"))
