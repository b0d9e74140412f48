"""All rows of a plan in one pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import Group, MiniBatch, grouped
from bln_search.evaluation.memory import MEMORY_LIMIT, Chunking, choose_chunking, keep_freed_memory
from bln_search.evaluation.scoring import Score, cross_entropy, scores_of
from bln_search.norms.base import NormalizationBase
from bln_search.norms.examples import Arrangement, EnumerationPlan, Examples, Populations, Row, mark, plain
from bln_search.norms.finding import evaluation_mode, find_norms, network_configurations
from bln_search.norms.statistics import chosen_population

_TF32_EPSILON = 2.0**-10
"""GPUs may multiply single-precision numbers in TF32."""

Progress = Callable[[int], None]
"""Called with the number of examples just finished."""


@torch.no_grad()
def evaluate_rows(
    network: nn.Module,
    batches: Iterable[MiniBatch],
    rows: Sequence[Row],
    populations: Populations,
    *,
    score: Score = cross_entropy,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
) -> list[Outcomes]:
    """Per-example losses and correctness of `network` under each of `rows`, in the order of the examples.

    Layers other than the normalization layers must treat examples independently; the first mini-batch is compared
    with plain forward passes, and a difference is a ModelError. one_pass=False evaluates row by row, for networks that
    the one-pass evaluation cannot follow. memory_limit: bytes of the largest activation of all rows together.
    """
    find_norms(network)
    if not rows:
        return []
    with evaluation_mode(network):
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            raise DataError("there is nothing to evaluate: the data has no mini-batch")
        second = next(iterator, None)
        everything = chain([first] if second is None else [first, second], iterator)
        if one_pass:
            chunking = choose_chunking(network, first[0], len(rows), memory_limit)
            _check_first(network, first, second, rows, populations, chunking)
            keep_freed_memory()
            groups = grouped(everything, chunking.groups)
            parts = _fused(network, groups, rows, populations, chunking, score)
        else:
            parts = _one_by_one(network, everything, rows, populations, score)
        return _collected(parts, progress)


def _fused(
    network: nn.Module,
    groups: Iterable[Group],
    rows: Sequence[Row],
    populations: Populations,
    chunking: Chunking,
    score: Score,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Losses and correctness (rows, examples) of each group."""
    plans = [
        EnumerationPlan(tuple(rows[start : start + chunking.rows]), populations)
        for start in range(0, len(rows), chunking.rows)
    ]
    for group in groups:
        parts = [_score(_outputs(network, group, plan), group.targets, score) for plan in plans]
        yield torch.cat([losses for losses, _ in parts]), torch.cat([correct for _, correct in parts])


def _outputs(network: nn.Module, group: Group, plan: EnumerationPlan) -> Tensor:
    """Outputs (rows, examples with a target, ...)."""
    arrangement = Arrangement(plan, group.groups, group.size)
    outputs = _tensor(network(mark(group.inputs.clone(), arrangement, 1)))
    outputs = plain(outputs) if isinstance(outputs, Examples) else outputs
    expected = len(plan.rows) * arrangement.examples
    if outputs.shape[0] != expected:
        raise ModelError(
            f"the network's output has {outputs.shape[0]} entries on its first axis where {expected} examples were "
            "under way: it must answer each example by itself; evaluate with one_pass=False"
        )
    return outputs.view(len(plan.rows), arrangement.examples, *outputs.shape[1:])[:, : len(group.targets)]


def _score(outputs: Tensor, targets: Tensor, score: Score) -> tuple[Tensor, Tensor]:
    rows, n = outputs.shape[:2]
    repeated = targets.repeat(rows, *[1] * (targets.ndim - 1))
    losses, correct = scores_of(score, outputs.flatten(0, 1), repeated)
    return losses.view(rows, n), correct.view(rows, n)


def _one_by_one(
    network: nn.Module, batches: Iterable[MiniBatch], rows: Sequence[Row], populations: Populations, score: Score
) -> Iterator[tuple[Tensor, Tensor]]:
    for inputs, targets in batches:
        parts = []
        for row in rows:
            with configured(row, populations):
                outputs = _tensor(network(inputs.clone()))[: len(targets)]
            parts.append(_score(outputs.unsqueeze(0), targets, score))
        yield torch.cat([losses for losses, _ in parts]), torch.cat([correct for _, correct in parts])


@contextmanager
def configured(row: Row, populations: Populations) -> Iterator[None]:
    """Every layer under `row` while this context is open."""
    before = {layer: layer.snapshot() for layer in populations}
    try:
        for layer, estimates in populations.items():
            layer.configure(row.configuration, chosen_population(row.configuration, row.estimate, estimates))
        yield
    finally:
        for layer, snapshot in before.items():
            layer.restore(snapshot)


@torch.no_grad()
def check_independence(network: nn.Module, inputs: Tensor, other: Tensor | None = None) -> None:
    """Raise ModelError unless the one pass can follow `network` and its other layers treat examples independently.

    Seen by two mini-batches, (m, ...), with every statistic taken from them; without `other` by one.
    """
    layers = find_norms(network)
    configurations = network_configurations(layers)
    row = Row(next(one for one in configurations if not (one.uses_population or one.uses_memory)), None)
    nothing = inputs.new_zeros(len(inputs), dtype=torch.int64)
    pair = None if other is None else (other, nothing)
    with evaluation_mode(network):
        _check_first(network, (inputs, nothing), pair, [row], {layer: {} for layer in layers.values()}, Chunking(1, 1))


def _check_first(
    network: nn.Module,
    first: MiniBatch,
    second: MiniBatch | None,
    rows: Sequence[Row],
    populations: Populations,
    chunking: Chunking,
) -> None:
    """Compare two mini-batches evaluated together, under a few rows, with plain forward passes of each.

    Two, because a layer that mixes examples would mix the mini-batches of a group. Where they differ in single
    precision, a copy in double precision decides: rounding grows without bound in a network that answers all alike.
    """
    chosen = [rows[i] for i in sorted({0, len(rows) // 2, len(rows) - 1})]
    inputs = first[0], None if second is None else second[0]
    try:
        _check_rows(network, *inputs, chosen, populations, chunking)
    except _DifferentError as difference:
        precise = None if first[0].dtype == torch.float64 else in_double(network, populations)
        if precise is None:
            raise ModelError(str(difference)) from None
        try:
            other = None if inputs[1] is None else doubled(inputs[1])
            _check_rows(precise[0], doubled(inputs[0]), other, chosen, precise[1], chunking)
        except Exception:  # noqa: BLE001 - whatever a network does to double precision, it is the difference that counts
            raise ModelError(str(difference)) from None


def in_double(network: nn.Module, populations: Populations) -> tuple[nn.Module, Populations] | None:
    """A copy of the network in double precision, where rounding cannot pass for mixing; None where it has no copy."""
    try:
        copied = deepcopy(network).double()
    except Exception:  # noqa: BLE001 - a network may have its own way to be copied
        return None
    names: dict[NormalizationBase, str] = {layer: name for name, layer in find_norms(network).items()}
    layers = find_norms(copied)
    return copied, {layers[names[layer]]: values for layer, values in populations.items()}


def doubled(x: Tensor) -> Tensor:
    """Measurements in double precision; marks of words as they are."""
    return x.double() if x.is_floating_point() else x


class _DifferentError(ModelError):
    """One pass and plain passes do not agree."""


def _check_rows(
    network: nn.Module,
    x: Tensor,
    second: Tensor | None,
    chosen: Sequence[Row],
    populations: Populations,
    chunking: Chunking,
) -> None:
    size = len(x)
    other = second if second is not None and second.shape == x.shape else x[torch.arange(size, device=x.device) // 2]
    group = Group(torch.cat([x, other]), x.new_zeros(2 * size), groups=2, size=size)
    for start in range(0, len(chosen), chunking.rows):
        part = tuple(chosen[start : start + chunking.rows])
        expected = torch.stack([_plain_outputs(network, row, populations, (x, other)) for row in part])
        try:
            fused = _outputs(network, group, EnumerationPlan(part, populations))
        except BlnSearchError:
            raise
        except Exception as error:
            raise ModelError(
                f"the one-pass evaluation cannot follow this network ({type(error).__name__}: {error}); "
                "evaluate with one_pass=False"
            ) from error
        _compare(fused, expected, part)


def _plain_outputs(network: nn.Module, row: Row, populations: Populations, inputs: Iterable[Tensor]) -> Tensor:
    with configured(row, populations):
        return torch.cat([_tensor(network(x.clone())) for x in inputs])


def _compare(fused: Tensor, expected: Tensor, rows: Sequence[Row]) -> None:
    coarser = max(torch.finfo(fused.dtype).eps, torch.finfo(expected.dtype).eps)
    if fused.is_cuda:
        coarser = max(coarser, _TF32_EPSILON)
    for row, output, plainly in zip(rows, fused.double(), expected.double(), strict=True):
        allowed = coarser**0.5 * plainly.nan_to_num(0, 0, 0).abs().max().item()
        if not torch.allclose(output, plainly, rtol=0, atol=allowed, equal_nan=True):
            difference = (output - plainly).abs().max().item()
            raise _DifferentError(
                f"under {row.configuration} the one pass differs from a plain forward pass by {difference:.3g}: "
                "a layer of this network does not treat examples independently; evaluate with one_pass=False"
            )


def _tensor(output: object) -> Tensor:
    if not isinstance(output, Tensor):
        raise ModelError(
            f"the network returns {type(output).__name__}: wrap it so that it returns one tensor, examples first"
        )
    return output


def _collected(parts: Iterable[tuple[Tensor, Tensor]], progress: Progress | None) -> list[Outcomes]:
    losses, correct = [], []
    for loss, right in parts:
        losses.append((loss if loss.dtype == torch.float64 else loss.float()).cpu().numpy())
        correct.append(right.cpu().numpy())
        if progress is not None:
            progress(loss.shape[1])
    all_losses, all_correct = np.concatenate(losses, 1), np.concatenate(correct, 1)
    return [
        Outcomes(np.ascontiguousarray(a), np.ascontiguousarray(b)) for a, b in zip(all_losses, all_correct, strict=True)
    ]
