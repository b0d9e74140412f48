"""Rows that have no value for sequences with more time steps than the norms inside recurrent layers have statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn

from bln_search.core.undefined_reasons import sequence_exceeds_time_steps_reason
from bln_search.data.inputs import first_examples_if_sliceable
from bln_search.evaluation.batches import MiniBatch
from bln_search.models.recurrent import TimeStepNorms
from bln_search.models.recurrent.time_step_norms import REFUSE
from bln_search.norms import Normalization
from bln_search.norms.network.layers import evaluation_mode, get_norms_by_name, use_training_sources_in_evaluation
from bln_search.norms.row_batching.row_tensor import InferenceRow


def peek_long_sequence_undefined_reasons(
    network: nn.Module, batches: Iterable[MiniBatch], rows: Sequence[InferenceRow]
) -> tuple[Iterable[MiniBatch], list[str | None]]:
    """Return the mini-batches, and for each row the reason why it has no value for their sequences.

    A row of a method without statistics of the mini-batch, as LN's `--TF`, has no value where it reads population
    values of a time step after those for which the network was built. The first mini-batch decides for all.

    Args:
        network: any network.
        batches: mini-batches.
        rows: the rows.

    Raises:
        ModelError: the sequences are longer, and the method has statistics of the mini-batch at every time step.
    """
    inside = [module for module in network.modules() if isinstance(module, TimeStepNorms)]
    inside = [norms for norms in inside if norms.longer_sequences == REFUSE]
    iterator = iter(batches)
    first = next(iterator, None) if inside else None
    if first is None:
        return iterator, [None] * len(rows)
    steps = _count_steps_per_norms(network, first, inside)
    reasons = [_find_undefined_reason(row, steps) for row in rows]
    return chain([first], iterator), reasons


@torch.no_grad()
def _count_steps_per_norms(
    network: nn.Module, batch: MiniBatch, inside: Iterable[TimeStepNorms]
) -> dict[TimeStepNorms, int]:
    """Return the number of time steps for which a forward pass of one example calls each of the norms."""
    steps: dict[TimeStepNorms, int] = {}

    def count_step(norms: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(norms, TimeStepNorms)
        step: int = args[1] if len(args) > 1 else kwargs["step"]
        steps[norms] = max(steps.get(norms, 0), step + 1)

    hooks = [norms.register_forward_pre_hook(count_step, with_kwargs=True) for norms in inside]
    try:
        with evaluation_mode(network), use_training_sources_in_evaluation(get_norms_by_name(network).values()):
            network(first_examples_if_sliceable(batch[0], 1).clone())
    finally:
        for hook in hooks:
            hook.remove()
    return steps


def _find_undefined_reason(row: InferenceRow, steps: dict[TimeStepNorms, int]) -> str | None:
    for norms, count in steps.items():
        layer = norms.of_step[-1]
        if isinstance(layer, Normalization) and count > len(norms.of_step):
            configuration = row.configuration.restricted_to_statistics_of(layer.method)
            if configuration.uses_population:
                return sequence_exceeds_time_steps_reason(len(norms.of_step), count)
    return None
