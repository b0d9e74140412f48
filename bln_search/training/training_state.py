"""The state of a training run between two steps: everything on which the rest of its training depends.

A run that is built again for the same trial, and whose state is restored, continues bit for bit: same weights, same
losses, same population estimates. Numbers that the schedules determine are not stored.

The file of a state has three lines of text, then the tensors in the format safetensors: the version of this format, the
SHA-256 of everything after it, and a JSON object of the fingerprint (on what the state depends) and of the numbers of
the state. It needs no pickle, so a file of a shared store can run no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from bln_search.core.errors import DataError
from bln_search.core.records import EpochRecord
from bln_search.norms import Normalization
from bln_search.norms.moment_collection import (
    MomentAccumulator,
    flatten_moments_to_tensors,
    restore_moments_from_tensors,
)
from bln_search.training.loop import TrainingRun
from bln_search.training.seeding import read_global_generator_states, restore_global_generator_states

_SEPARATOR = "|"
_FORMAT = b"bln-search training state 1"

Fingerprint = Mapping[str, str | int]
"""Trial, software and hardware: a state restored under another fingerprint would not continue bit for bit."""


@dataclass(frozen=True)
class TrainingState:
    """The state of a training run.

    Attributes:
        tensors: by name, on any device.
        numbers: values that JSON preserves.
    """

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]

    def select_tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names begin with `prefix` and a separator, by the rest of the name."""
        start = prefix + _SEPARATOR
        return {name.removeprefix(start): value for name, value in self.tensors.items() if name.startswith(start)}

    @property
    def epochs(self) -> tuple[EpochRecord, ...]:
        """The records of the finished epochs."""
        return tuple(EpochRecord(**record) for record in self.numbers["epochs"])


def collect_training_state(run: TrainingRun) -> TrainingState:
    """Return the state of a run between two steps, or after an epoch. Its tensors may share memory with the run."""
    result, progress = run.result, run.progress
    tensors: dict[str, Tensor] = {"generator": run.generator.get_state()}
    _add(tensors, "global generator", read_global_generator_states(_device_of(run)))
    _add(tensors, "network", run.network.state_dict())
    optimizer = run.optimizer.state_dict()
    for part in ("state", "tables"):
        for index, values in optimizer.get(part, {}).items():
            _add(tensors, f"{part}{_SEPARATOR}{index}", values)
    _add(tensors, "kept", result.weights)
    for estimate, moments in result.moments.items():
        _add(tensors, f"kept moments{_SEPARATOR}{estimate}", flatten_moments_to_tensors(moments))
    for name, layer in run.layers.items():
        for kind, accumulators in (("moving", run.moving), ("epoch", progress.accumulators if progress.step else {})):
            if layer in accumulators:
                _add(tensors, f"{kind}{_SEPARATOR}{name}", accumulators[layer].state_tensors())
    if progress.step and progress.order_state is not None:
        tensors["order"] = progress.order_state
    tensors |= {"total loss": progress.total_loss, "correct": progress.num_correct}
    running_steps = 0
    if run.running_loss is not None:
        running_steps, weighted_sum = run.running_loss.state
        tensors |= {} if weighted_sum is None else {"running loss": weighted_sum}
    numbers = {
        "epochs": [asdict(record) for record in result.epochs],
        "kept_epoch": result.kept_epoch,
        "kept_validation_loss": result.kept_validation_loss,
        "step": progress.step,
        "seconds": progress.seconds if progress.step else 0.0,
        "running_steps": running_steps,
        "fused_epochs": run.num_fused_epochs,
    }
    return TrainingState(tensors, numbers)


def restore_training_state(run: TrainingRun, state: TrainingState) -> None:
    """Restore the state of a run that was made for the same trial and has not trained yet.

    Raises:
        Exception: the state is not one of this run, which is then unusable.
    """
    device, numbers = _device_of(run), state.numbers
    run.network.load_state_dict(state.select_tensors("network"))
    _restore_optimizer(run.optimizer, state)
    _restore_result(run, state, device)
    _restore_accumulators(run.moving, run.layers, state, "moving", device)
    progress, step = run.progress, numbers["step"]
    if step:
        _restore_accumulators(progress.accumulators, run.layers, state, "epoch", device)
        progress.step = progress.first_step = step
        progress.order_state = state.tensors.get("order")
        progress.total_loss.copy_(state.tensors["total loss"])
        progress.num_correct.copy_(state.tensors["correct"])
        progress.earlier_seconds = numbers["seconds"]
    if run.running_loss is not None:
        running = state.tensors.get("running loss")
        run.running_loss.state = numbers["running_steps"], None if running is None else running.to(device, copy=True)
    run.num_fused_epochs = numbers["fused_epochs"]
    steps = len(run.result.epochs) * run.steps + step
    if steps:
        run.set_scheduled_values(steps - 1)
    run.generator.set_state(state.tensors["generator"])
    restore_global_generator_states(state.select_tensors("global generator"), device)


def _restore_optimizer(optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
    """Restore what the optimizer keeps for each parameter; its options are those that it was made with."""
    parts: dict[str, dict[int, dict[str, Tensor]]] = {"state": {}, "tables": {}}
    for part, values in parts.items():
        for name, value in state.select_tensors(part).items():
            index, _, key = name.partition(_SEPARATOR)
            values.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**parts, "param_groups": optimizer.state_dict()["param_groups"]})


def _restore_result(run: TrainingRun, state: TrainingState, device: torch.device) -> None:
    result = run.result
    result.epochs = list(state.epochs)
    result.kept_epoch = state.numbers["kept_epoch"]
    result.kept_validation_loss = state.numbers["kept_validation_loss"]
    result.weights = {name: value.to(device, copy=True) for name, value in state.select_tensors("kept").items()}
    moments: dict[str, dict[str, Tensor]] = {}
    for name, value in state.select_tensors("kept moments").items():
        estimate, _, rest = name.partition(_SEPARATOR)
        is_count = rest.endswith(("sizes", "prior"))
        moments.setdefault(estimate, {})[rest] = value if is_count else value.to(device, copy=True)
    result.moments = {estimate: restore_moments_from_tensors(values) for estimate, values in moments.items()}


def _restore_accumulators(
    accumulators: Mapping[Normalization, MomentAccumulator],
    layers: Mapping[str, Normalization],
    state: TrainingState,
    kind: str,
    device: torch.device,
) -> None:
    for name, layer in layers.items():
        if layer in accumulators:
            accumulators[layer].restore_state(state.select_tensors(f"{kind}{_SEPARATOR}{name}"), device)


def _add(tensors: dict[str, Tensor], prefix: str, values: Mapping[str, Tensor]) -> None:
    tensors.update({f"{prefix}{_SEPARATOR}{name}": value for name, value in values.items()})


def _device_of(run: TrainingRun) -> torch.device:
    return run.progress.total_loss.device


def encode_training_state(state: TrainingState, fingerprint: Fingerprint) -> bytes:
    """Return the content of the file of a state."""
    tensors = {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in state.tensors.items()
    }
    head = json.dumps({"fingerprint": dict(fingerprint), "numbers": state.numbers}, sort_keys=True).encode()
    content = head + b"\n" + save(tensors)
    return b"\n".join([_FORMAT, hashlib.sha256(content).hexdigest().encode(), content])


def decode_training_state(content: bytes, fingerprint: Fingerprint) -> TrainingState:
    """Return the state of a file.

    Args:
        content: of the file.
        fingerprint: the state must have been saved under it.

    Raises:
        DataError: the content is damaged, of another version, or was saved under another fingerprint.
    """
    form, _, rest = content.partition(b"\n")
    if form != _FORMAT:
        raise DataError("it is not a training state of this version")
    sha256, _, rest = rest.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != sha256:
        raise DataError("it is damaged: its SHA-256 is not the recorded one")
    head, _, tensors = rest.partition(b"\n")
    try:
        stored = json.loads(head)
        differing = _list_differences(stored["fingerprint"], fingerprint)
        if differing:
            raise DataError(f"it was saved under other conditions: {'; '.join(differing)}")
        return TrainingState(load(tensors), stored["numbers"])
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(f"it cannot be decoded: {type(error).__name__}: {error}") from None


def _list_differences(stored: Fingerprint, present: Fingerprint) -> list[str]:
    names = sorted({*stored, *present})
    return [
        f"{name} {stored.get(name)} then, {present.get(name)} now"
        for name in names
        if stored.get(name) != present.get(name)
    ]
