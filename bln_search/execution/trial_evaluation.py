"""Evaluation of a trained network under every planned row, size, split and condition of its trial, and its probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import Tensor

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.records import Evaluation, ProbeResult
from bln_search.data.conditions import make_corrupted_validation_and_test_splits
from bln_search.data.lazy_images import Examples, select_examples
from bln_search.data.text_lengths import make_splits_with_text_length
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.one_pass import Progress
from bln_search.evaluation.probe_evaluation import ValidationProbe
from bln_search.evaluation.split_metrics import Metric, SplitMetricRecorder
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.execution.messages import PhaseProgress, Send, TrialPhase
from bln_search.specs.sections.condition import CLEAN
from bln_search.specs.sections.evaluation import (
    EVALUATED_SPLITS,
    ProbesSpec,
    TrainSplitSelection,
    format_length_condition_name,
)
from bln_search.training.checkpoint import (
    copy_weights_into_network,
    read_checkpoint_weights_and_moments,
    restore_weights_on_exit,
)

_Splits = Mapping[Split, tuple[Examples, Tensor]]

TestSplits = dict[str, tuple[Examples, Tensor]]
"""Inputs and targets of the test split by condition, that of clean images among them."""


def evaluate_trained_network(
    loaded: LoadedNetwork, send: Send, *, memory_limit: int = MEMORY_LIMIT, tests: TestSplits | None = None
) -> tuple[Evaluation, ...]:
    """Evaluate every planned row at every inference batch size on validation and test, clean and under every condition.

    If the trial evaluates the training split too, that is on clean images only.

    Args:
        loaded: The trained network with its populations and data.
        send: Receives the progress.
        memory_limit: Bytes of the largest activation of all configurations together.
        tests: Receives the test split under every condition, so that it is corrupted once; None to keep none.

    Returns:
        Every evaluation; undefined ones have their reason.
    """
    trial = loaded.trial
    total = len(trial.inference_batch_sizes) * sum(_iter_num_examples_by_condition(loaded))
    done = 0

    def progress(examples: int) -> None:
        nonlocal done
        done += examples
        send(PhaseProgress(TrialPhase.EVALUATION, done, total))

    return tuple(
        evaluation
        for condition, splits in _iter_splits_by_condition(loaded, tests)
        for batch_size in trial.inference_batch_sizes
        for split, examples in splits.items()
        for evaluation in _evaluate_split_with_metrics(
            loaded,
            examples,
            split=split,
            batch_size=batch_size,
            condition=condition,
            memory_limit=memory_limit,
            progress=progress,
        )
    )


def _evaluate_split_with_metrics(
    loaded: LoadedNetwork,
    examples: tuple[Examples, Tensor],
    *,
    split: Split,
    batch_size: int,
    condition: str,
    memory_limit: int,
    progress: Progress,
) -> list[Evaluation]:
    rows = loaded.planned_inference_rows
    metrics = {name: Metric(metric) for name, metric in loaded.make_task_metrics().items()}
    recorder = SplitMetricRecorder(metrics, len(rows), len(examples[0]), memory_limit)
    evaluations = loaded.evaluate_examples(
        examples,
        split=split,
        batch_size=batch_size,
        condition=condition,
        memory_limit=memory_limit,
        progress=progress,
        observe=recorder.add_outputs if metrics else None,
    )
    return recorder.add_metrics_to_evaluations(evaluations) if metrics else evaluations


def measure_lowest_validation_loss(loaded: LoadedNetwork, *, memory_limit: int = MEMORY_LIMIT) -> float | None:
    """The lowest validation loss of all planned rows at all inference batch sizes; None where none is measured."""
    losses = [
        evaluation.loss
        for batch_size in loaded.trial.inference_batch_sizes
        for evaluation in loaded.evaluate_examples(
            loaded.data.splits[Split.VALIDATION], batch_size=batch_size, memory_limit=memory_limit
        )
        if evaluation.loss is not None
    ]
    return min(losses, default=None)


def _load_clean_splits(loaded: LoadedNetwork) -> _Splits:
    splits = {split: loaded.data.splits[split] for split in loaded.trial.evaluation.evaluated_splits}
    if Split.TRAIN in splits and loaded.trial.evaluation.train_examples is TrainSplitSelection.AS_VALIDATION:
        inputs, targets = splits[Split.TRAIN]
        size = len(splits[Split.VALIDATION][0])
        splits[Split.TRAIN] = select_examples(inputs, slice(size)), targets[:size]
    return splits


def _iter_num_examples_by_condition(loaded: LoadedNetwork) -> Iterator[int]:
    """The number of examples of all evaluated splits, for the clean images and for each condition."""
    clean = {split: len(inputs) for split, (inputs, _) in _load_clean_splits(loaded).items()}
    yield sum(clean.values())
    for _ in loaded.trial.evaluation.additional_condition_names:
        yield sum(clean[split] for split in EVALUATED_SPLITS)


def _iter_splits_by_condition(loaded: LoadedNetwork, tests: TestSplits | None) -> Iterator[tuple[str, _Splits]]:
    """The clean splits, then those of each condition; one condition at a time, because images take much memory.

    Only the test splits are kept, where `tests` is given.
    """
    for condition, splits in _iter_made_splits(loaded):
        if tests is not None:
            tests[condition or CLEAN] = splits[Split.TEST]
        yield condition, splits


def _iter_made_splits(loaded: LoadedNetwork) -> Iterator[tuple[str, _Splits]]:
    yield "", _load_clean_splits(loaded)
    for condition in loaded.trial.evaluation.conditions:
        yield condition.name, make_corrupted_validation_and_test_splits(loaded.data, condition)
    for length in loaded.trial.evaluation.lengths:
        yield format_length_condition_name(length), make_splits_with_text_length(loaded.data, length)


def measure_trial_probes(
    loaded: LoadedNetwork, probes: ProbesSpec, environment: ExecutionEnvironment, memory_limit: int = MEMORY_LIMIT
) -> tuple[ProbeResult, ...]:
    """Measure every probe on the validation split. Afterwards the network has its former weights.

    Args:
        loaded: The trained network with its populations, data and snapshots.
        probes: What to measure.
        environment: Its checkpoint store holds the snapshots.
        memory_limit: Bytes of the largest activation of all configurations together.

    Raises:
        DataError: A snapshot is missing or damaged.
    """
    size = loaded.trial.training.batch_size
    probe = ValidationProbe(
        loaded.network,
        *loaded.data.splits[Split.VALIDATION],
        loaded.planned_inference_rows,
        loaded.populations_by_estimate_and_layer,
        loaded.task,
        memory_limit,
    )
    figures = [figure for probed in probes.batch_sizes or () for figure in probe.probe_at_batch_size(probed)]
    if probes.reshuffles:
        figures += probe.probe_batch_composition(size, reshuffles=probes.reshuffles, seed=loaded.trial.seed)
    if probes.epochs is not None:
        with restore_weights_on_exit(loaded.network):
            for snapshot in loaded.snapshots:
                weights, gathered = read_checkpoint_weights_and_moments(
                    environment.checkpoints, snapshot.file, snapshot.sha256
                )
                copy_weights_into_network(loaded.network, weights)
                populations = replace(loaded, gathered=gathered).populations_by_estimate_and_layer
                figures += replace(probe, populations=populations).probe_at_batch_size(
                    size, kind=ProbeKind.EPOCH, epoch=snapshot.epoch
                )
    return tuple(figures)
