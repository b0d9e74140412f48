"""All arms over one stream in one call: each mini-batch is read once, and an arm that fails ends alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.adaptation.arm_record import ArmRecord
from bln_search.adaptation.arms import AdaptingArm, SharedPass, StreamArm
from bln_search.adaptation.stream_plan import Indices, StreamPlan
from bln_search.core.registry import ADAPTATIONS
from bln_search.core.stream_outcomes import StreamOutcomes
from bln_search.data.inputs import Inputs, concatenate_inputs
from bln_search.norms.precision import use_full_float32_precision
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations

ConditionData = Mapping[str, tuple[Inputs, Tensor]]
"""Inputs (n, ...) and classes (n,) of each condition."""


def run_stream(
    network: nn.Module,
    arms: Sequence[StreamArm],
    populations: Populations,
    data: ConditionData,
    plan: StreamPlan,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[StreamOutcomes]:
    """Return the outcomes of each arm on a stream, in their order. The network is not changed.

    Mini-batches arrive once, in order, and arms never see a target. Arms that change outputs alone share the forward
    pass of their configuration. An arm whose outputs are not finite, or that raises an error, ends; the others go on.

    Args:
        network: With normalization layers.
        arms: The arms.
        populations: Population values of each layer under each estimate.
        data: Inputs and classes of each condition.
        plan: The stream.
        progress: Called with the number of examples of each mini-batch.
    """
    records = [ArmRecord(len(plan.condition_of)) for _ in arms]
    runners, passes = _start_arms(network, arms, populations)
    with use_full_float32_precision():
        for number, (conditions, examples) in enumerate(plan.iter_mini_batches()):
            if number in plan.resets and number:
                _reset_arms(runners, passes, records)
            inputs, targets = _read_mini_batch(data, plan.conditions, conditions, examples)
            for shared, positions in passes.items():
                _predict_by_shared_pass(shared, positions, records, inputs, targets)
            for position, runner in runners.items():
                records[position].add(partial(runner.predict, inputs.clone()), targets)
            if progress is not None:
                progress(len(targets))
    return [record.make_outcomes() for record in records]


def _start_arms(
    network: nn.Module, arms: Sequence[StreamArm], populations: Populations
) -> tuple[dict[int, AdaptingArm], dict[SharedPass, list[int]]]:
    """Return the runners of adapting arms by position, and the shared passes with the positions of their arms."""
    runners: dict[int, AdaptingArm] = {}
    sharing: dict[InferenceRow, dict[int, StreamArm]] = {}
    for position, arm in enumerate(arms):
        info = ADAPTATIONS.load_info(arm.method)
        if info is not None and info.reads_outputs_only:
            sharing.setdefault(arm.row, {})[position] = arm
        else:
            runners[position] = AdaptingArm(network, arm, populations)
    return runners, {SharedPass(network, of_row, populations): list(of_row) for of_row in sharing.values()}


def _predict_by_shared_pass(
    shared: SharedPass, positions: Sequence[int], records: Sequence[ArmRecord], inputs: Inputs, targets: Tensor
) -> None:
    """Compute the pass once, and the outputs of each arm; an error of the pass ends all of them."""
    if all(records[position].end for position in positions):
        return
    start = time.perf_counter()
    compute = cache(partial(shared.compute, inputs))
    with suppress(Exception):  # raised again for each arm
        compute()
    seconds = time.perf_counter() - start
    for position in positions:
        records[position].add(partial(_correct_outputs, shared, position, compute), targets, seconds)


def _correct_outputs(shared: SharedPass, position: int, compute: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
    """Return the outputs of an arm; it gets copies, as a correction may write to them."""
    outputs, features = compute()
    return shared.correct(position, outputs.clone(), features.clone())


def _reset_arms(
    runners: Mapping[int, AdaptingArm], passes: Mapping[SharedPass, Sequence[int]], records: Sequence[ArmRecord]
) -> None:
    """Return all arms to their start; one that cannot ends."""
    for position, runner in runners.items():
        with records[position].ended_by_error():
            runner.reset()
    for shared, positions in passes.items():
        shared.reset_network()
        for position in positions:
            with records[position].ended_by_error():
                shared.reset_correction(position)


def _read_mini_batch(
    data: ConditionData, names: Sequence[str], conditions: Indices, examples: Indices
) -> tuple[Inputs, Tensor]:
    """Return inputs (n, ...) and classes (n,) in the order of the stream."""
    present = np.unique(conditions)
    if len(present) == 1:
        inputs, targets = data[names[present[0]]]
        chosen = torch.from_numpy(examples).to(targets.device)
        return inputs[chosen], targets[chosen]
    parts = [data[names[i]] for i in present]
    places = [np.flatnonzero(conditions == i) for i in present]
    chosen_parts = [torch.from_numpy(examples[place]).to(parts[0][1].device) for place in places]
    order = torch.from_numpy(np.argsort(np.concatenate(places))).to(parts[0][1].device)
    inputs = concatenate_inputs([part[0][chosen] for part, chosen in zip(parts, chosen_parts, strict=True)])
    targets = torch.cat([part[1][chosen] for part, chosen in zip(parts, chosen_parts, strict=True)])
    return inputs[order], targets[order]
