"""A checkpoint evaluated again, and compared with what was stored of it."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray

from bln_search.core.errors import ModelError
from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey
from bln_search.execution.environment import Place, choose_device
from bln_search.execution.loaded_network import restored
from bln_search.execution.trial import evaluate_trial
from bln_search.specs.trial import TrialSpec

TOLERANCE = 1e-4
"""Largest difference of losses (nats; in units of the loss where that is above one) that another machine may make."""


class Verdict(StrEnum):
    """How an evaluation compares with the stored one; `close`: within TOLERANCE, on another machine than then."""

    IDENTICAL = "identical"
    CLOSE = "close"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Compared:
    """One stored evaluation. difference: the largest of losses (nats), None where there is nothing to subtract."""

    key: EvaluationKey
    verdict: Verdict
    difference: float | None
    what: str


@dataclass(frozen=True)
class Circumstances:
    """Where a trial is evaluated again; `changed` says what is not as it was, None for nothing."""

    device: str
    threads: int
    changed: str | None


def circumstances(checkpoint: CheckpointRecord) -> Circumstances:
    """Device and threads of the checkpoint's provenance; the CPU in place of a device that is not there."""
    origin = checkpoint.provenance
    then = str(origin.get("device", "cpu"))
    try:
        device = choose_device(then)
    except ModelError:
        device = "cpu"
    hardware = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor()
    now = {"device": device, "hardware": hardware or platform.machine(), "torch": torch.__version__}
    changed = [
        f"{name} {origin.get(name)} then, {value} now" for name, value in now.items() if origin.get(name) != value
    ]
    return Circumstances(device, int(origin.get("threads", 1)), "; ".join(changed) or None)


def evaluate_again(
    trial: TrialSpec, checkpoint: CheckpointRecord, place: Place, where: Circumstances
) -> tuple[Evaluation, ...]:
    """Every planned evaluation of the trial from its checkpoint file, by the code that evaluates trials.

    Raises DataError where the file is absent, damaged or of another network.
    """
    here = replace(place, device=where.device, threads=where.threads)
    with restored(trial, checkpoint, here) as found:
        return evaluate_trial(trial, found.network, found.gathered, found.data, lambda _: None)


def compare(stored: Sequence[Evaluation], again: Iterable[Evaluation], *, same: bool) -> list[Compared]:
    """Every stored evaluation against the one made again, bit for bit: state, reason, figures and each example.

    same: was it made on the same device, hardware and version of torch? Else losses within TOLERANCE are `close`.
    """
    made = {one.key: one for one in again}
    known = {one.key for one in stored}
    missing = [Compared(key, Verdict.DIFFERENT, None, "not stored") for key in made if key not in known]
    return [_compared(one, made.get(one.key), same=same) for one in stored] + missing


def _compared(stored: Evaluation, again: Evaluation | None, *, same: bool) -> Compared:
    if again is None:
        return Compared(stored.key, Verdict.DIFFERENT, None, "not planned any more")
    differing = [
        name for name in ("state", "n", "loss", "accuracy", "reason") if getattr(stored, name) != getattr(again, name)
    ] + _differing_outcomes(stored, again)
    if not differing:
        return Compared(stored.key, Verdict.IDENTICAL, 0.0, "")
    difference = _largest_difference(stored, again)
    comparable = (stored.state, stored.n) == (again.state, again.n)
    close = not same and comparable and difference is not None and difference <= TOLERANCE
    verdict = Verdict.CLOSE if close else Verdict.DIFFERENT
    return Compared(stored.key, verdict, difference, ", ".join(differing))


def _differing_outcomes(stored: Evaluation, again: Evaluation) -> list[str]:
    """Which per-example results differ in a bit; a loss that is not a number equals itself."""
    if stored.outcomes is None or again.outcomes is None:
        return [] if stored.outcomes is again.outcomes else ["outcomes"]
    kept, made = stored.outcomes, again.outcomes
    losses = _bits(kept.losses) == _bits(made.losses)
    correct = np.array_equal(kept.correct, made.correct)
    return [*([] if losses else ["losses of examples"]), *([] if correct else ["correctness of examples"])]


def _bits(losses: NDArray[np.float32] | NDArray[np.float64]) -> bytes:
    """As the ledger stores them."""
    return np.ascontiguousarray(losses, dtype="<f4").tobytes()


def _largest_difference(stored: Evaluation, again: Evaluation) -> float | None:
    """Of the mean loss and every example's, in units of the loss where that is above one."""
    found = []
    if stored.loss is not None and again.loss is not None:
        found.append(abs(stored.loss - again.loss) / max(1.0, abs(stored.loss)))
    if stored.outcomes is not None and again.outcomes is not None:
        kept, made = stored.outcomes.losses.astype(np.float64), again.outcomes.losses.astype(np.float64)
        if kept.shape == made.shape:
            both = np.isfinite(kept) & np.isfinite(made)
            scale = np.maximum(1.0, np.abs(kept[both]))
            found.append(float(np.max(np.abs(kept[both] - made[both]) / scale, initial=0.0)))
    return max(found, default=None)


def worst(compared: Iterable[Compared]) -> float | None:
    """The largest difference of those that are not identical; None where nothing could be subtracted."""
    found = [one.difference for one in compared if one.verdict is not Verdict.IDENTICAL and one.difference is not None]
    return max(found, default=None)
