"""Evaluation of a trained network under every planned row, mini-batch size, split and condition of its trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.records import Evaluation
from bln_search.data.conditions import corrupted_splits
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.split import evaluate_split
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.execution.messages import Phase, PhaseProgress, Send

_EVALUATED_SPLITS = (Split.VALIDATION, Split.TEST)


def evaluate_trial(loaded: LoadedNetwork, send: Send, *, memory_limit: int = MEMORY_LIMIT) -> tuple[Evaluation, ...]:
    """Evaluate every planned row at every inference batch size on validation and test, clean and under every condition.

    Args:
        loaded: The trained network with its populations and data.
        send: Receives the progress.
        memory_limit: Bytes of the largest activation of all configurations together.

    Returns:
        Every evaluation; undefined ones have their reason.
    """
    trial, data = loaded.trial, loaded.data
    examples = sum(len(data.splits[split][0]) for split in _EVALUATED_SPLITS)
    total = len(trial.condition_names) * len(trial.batch_sizes) * examples
    done = 0

    def progress(examples: int) -> None:
        nonlocal done
        done += examples
        send(PhaseProgress(Phase.EVALUATION, done, total))

    return tuple(
        evaluation
        for condition, splits in _splits_by_condition(loaded)
        for batch_size in trial.batch_sizes
        for split in _EVALUATED_SPLITS
        for evaluation in evaluate_split(
            loaded.network,
            mini_batches(*splits[split], batch_size),
            loaded.planned_row_specs,
            loaded.populations,
            split=split,
            batch_size=batch_size,
            condition=condition,
            memory_limit=memory_limit,
            progress=progress,
        )
    )


def _splits_by_condition(loaded: LoadedNetwork) -> Iterator[tuple[str, Mapping[Split, tuple[Tensor, Tensor]]]]:
    """The clean splits, then those of each condition; one condition at a time, because images take much memory."""
    yield "", loaded.data.splits
    for condition in loaded.trial.evaluation.conditions:
        yield condition.name, corrupted_splits(loaded.data, condition)
