"""Evaluate a checkpoint again and compare the evaluations with the stored ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray

from bln_search.core.code_identity import CODE
from bln_search.core.errors import ModelError
from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey
from bln_search.execution.code_identity import compute_code_identity
from bln_search.execution.devices import is_gpu, resolve_device_name
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.provenance import name_gpu_or_processor
from bln_search.execution.trial_evaluation import evaluate_trained_network
from bln_search.specs.trial import TrialSpec

TOLERANCE = 1e-4
"""Largest accepted difference of losses on another machine or by other code.

In nats, relative to the loss where the loss is above 1."""

_METRIC_TOLERANCE = 1e-9
"""Largest accepted relative difference of a metric on the same machine."""


class ReproductionVerdict(StrEnum):
    """Result of a comparison with the stored evaluation; `close`: within TOLERANCE, where conditions differ."""

    IDENTICAL = "identical"
    CLOSE = "close"
    DIFFERENT = "different"


@dataclass(frozen=True)
class EvaluationComparison:
    """The comparison of one evaluation with the stored one.

    Attributes:
        key: Configuration, estimate, batch size and split.
        verdict: The result.
        difference: Largest difference of losses (nats); None if there is nothing to subtract.
        differing_fields: Names of the differing fields, separated by commas; empty if there are none.
    """

    key: EvaluationKey
    verdict: ReproductionVerdict
    difference: float | None
    differing_fields: str


@dataclass(frozen=True)
class ReevaluationEnvironment:
    """Device and threads of a re-evaluation; `changed` lists the differences from training, None if there are none."""

    device: str
    threads: int
    changed: str | None


def choose_reevaluation_environment(trial: TrialSpec, checkpoint: CheckpointRecord) -> ReevaluationEnvironment:
    """Device and threads of the checkpoint's provenance; the CPU if this machine lacks the kind of device.

    Which one of several GPUs it was makes no difference, as long as it has the same name.
    """
    origin = checkpoint.provenance
    trained_on = str(origin.get("device", "cpu"))
    device = _find_present_device(trained_on)
    present = {"device": device, "hardware": name_gpu_or_processor(device), "torch": torch.__version__}
    changed = [
        f"{name} {origin.get(name)} then, {value} now"
        for name, value in present.items()
        if origin.get(name) != value and not (name == "device" and is_gpu(device) and is_gpu(trained_on))
    ]
    recorded = origin.get(CODE)
    if recorded is None:
        changed.append("the code of bln-search was not recorded")
    elif recorded["built_in"] != compute_code_identity(trial).built_in:
        changed.append("the code of bln-search changed")
    return ReevaluationEnvironment(device, int(origin.get("threads", 1)), "; ".join(changed) or None)


def _find_present_device(trained_on: str) -> str:
    """The device itself, for a GPU otherwise another one; the CPU if this machine has neither."""
    for device in (trained_on, trained_on.partition(":")[0]):
        try:
            return resolve_device_name(device)
        except ModelError:
            continue
    return "cpu"


def reevaluate_trial(
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    environment: ExecutionEnvironment,
    conditions: ReevaluationEnvironment,
) -> tuple[Evaluation, ...]:
    """Run every planned evaluation of the trial from its checkpoint, with the code that evaluates trials.

    Raises:
        DataError: The file is missing, damaged or of another network.
    """
    replay_environment = replace(environment, device=conditions.device, threads=conditions.threads)
    with use_trained_network(trial, checkpoint, replay_environment) as loaded:
        return evaluate_trained_network(loaded, lambda _: None)


def compare_evaluations(
    stored: Sequence[Evaluation], repeated: Iterable[Evaluation], *, same_conditions: bool
) -> list[EvaluationComparison]:
    """Compare every stored evaluation with the repeated one bit for bit: state, reason, figures and each example.

    Metrics of the task may differ by rounding; evaluations that were stored without metrics are compared without.

    Args:
        stored: Evaluations of the ledger.
        repeated: The same evaluations, computed again.
        same_conditions: Both were computed on the same device, hardware and version of torch, by the same code.
            Otherwise losses within TOLERANCE are `close`.
    """
    repeated_by_key = {evaluation.key: evaluation for evaluation in repeated}
    stored_keys = {evaluation.key for evaluation in stored}
    not_stored = [
        EvaluationComparison(key, ReproductionVerdict.DIFFERENT, None, "not stored")
        for key in repeated_by_key
        if key not in stored_keys
    ]
    compared = [
        _compare_evaluation(evaluation, repeated_by_key.get(evaluation.key), same_conditions=same_conditions)
        for evaluation in stored
    ]
    return compared + not_stored


def _compare_evaluation(
    stored: Evaluation, repeated: Evaluation | None, *, same_conditions: bool
) -> EvaluationComparison:
    if repeated is None:
        return EvaluationComparison(stored.key, ReproductionVerdict.DIFFERENT, None, "not planned any more")
    differing = list(_iter_differing_fields(stored, repeated))
    if not differing:
        return EvaluationComparison(stored.key, ReproductionVerdict.IDENTICAL, 0.0, "")
    difference = _largest_loss_difference_of_evaluation(stored, repeated)
    comparable = (stored.state, stored.n) == (repeated.state, repeated.n)
    close = not same_conditions and comparable and difference is not None and difference <= TOLERANCE
    verdict = ReproductionVerdict.CLOSE if close else ReproductionVerdict.DIFFERENT
    return EvaluationComparison(stored.key, verdict, difference, ", ".join(differing))


def _iter_differing_fields(stored: Evaluation, repeated: Evaluation) -> Iterator[str]:
    """Names of what differs. Metrics are sums over mini-batches, which are rounded in the order of their groups."""
    yield from (
        name
        for name in ("state", "n", "loss", "accuracy", "reason")
        if getattr(stored, name) != getattr(repeated, name)
    )
    for name, value in stored.metrics.items():
        if not math.isclose(value, repeated.metrics.get(name, math.nan), rel_tol=_METRIC_TOLERANCE, abs_tol=1e-12):
            yield name
    before, after = stored.outcomes, repeated.outcomes
    if before is None or after is None:
        if before is not after:
            yield "outcomes"
        return
    if _losses_as_stored_bytes(before.losses) != _losses_as_stored_bytes(after.losses):  # a NaN loss equals itself
        yield "losses of examples"
    if not np.array_equal(before.correct, after.correct):
        yield "correctness of examples"


def _losses_as_stored_bytes(losses: NDArray[np.float32] | NDArray[np.float64]) -> bytes:
    return np.ascontiguousarray(losses, dtype="<f4").tobytes()


def _largest_loss_difference_of_evaluation(stored: Evaluation, repeated: Evaluation) -> float | None:
    """Largest difference of the mean loss and of every example's loss, relative where the loss is above 1."""
    differences = []
    if stored.loss is not None and repeated.loss is not None:
        differences.append(abs(stored.loss - repeated.loss) / max(1.0, abs(stored.loss)))
    if stored.outcomes is not None and repeated.outcomes is not None:
        before, after = stored.outcomes.losses.astype(np.float64), repeated.outcomes.losses.astype(np.float64)
        if before.shape == after.shape:
            finite = np.isfinite(before) & np.isfinite(after)
            scale = np.maximum(1.0, np.abs(before[finite]))
            differences.append(float(np.max(np.abs(before[finite] - after[finite]) / scale, initial=0.0)))
    return max(differences, default=None)


def find_largest_loss_difference(comparisons: Iterable[EvaluationComparison]) -> float | None:
    """The largest difference of the comparisons that are not identical; None if no losses could be subtracted."""
    differences = [
        comparison.difference
        for comparison in comparisons
        if comparison.verdict is not ReproductionVerdict.IDENTICAL and comparison.difference is not None
    ]
    return max(differences, default=None)
