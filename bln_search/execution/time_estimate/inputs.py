"""Inputs on which durations are measured: a part of the data set, or random ones if its files are not here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from bln_search.core.enums import Split
from bln_search.core.errors import DataError, DataUnavailableOnMachineError
from bln_search.data.lazy_images import Examples, select_examples
from bln_search.data.prepared import PreparedData
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.time_estimate.extrapolation import list_batch_sizes_and_lengths_to_measure
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.split_sizes import list_known_split_sizes
from bln_search.specs.trial import TrialSpec
from bln_search.training.step_timing import DeviceSynchronizedClock

_LEAST_EXAMPLES = 256
_SMALLEST_TRAINING_SET = 1024


@dataclass(frozen=True)
class MeasurementInputs:
    """Inputs on which the trials of a study are measured.

    Attributes:
        data: Some examples of each split.
        sizes: Number of examples of each split in the study.
        missing: Why the inputs are random; None if they are of the data set.
        loading: Seconds in which the data set was loaded; 0 if the inputs are random.
    """

    data: PreparedData
    sizes: Mapping[Split, int]
    missing: str | None = None
    loading: float = 0.0

    def count_steps_per_epoch(self, batch_size: int) -> int:
        """Training steps of an epoch."""
        return self.sizes[Split.TRAIN] // batch_size

    def make_evaluation_examples(self, length: int | None) -> tuple[Examples, torch.Tensor]:
        """Validation examples; random texts of `length` token ids, or those of training if it is None.

        Raises:
            DataError: The data are not texts, which can have another length.
        """
        inputs, targets = self.data.splits[Split.VALIDATION]
        if length is None:
            return inputs, targets
        if self.data.vocabulary is None:
            raise DataError("the data are not texts, which can have another length: remove evaluation.lengths")
        generator = torch.Generator().manual_seed(length)
        texts = torch.randint(1, self.data.vocabulary, (len(targets), length), generator=generator)
        return texts.to(targets.device), targets


def load_or_make_measurement_inputs(
    spec: DataSpec, trials: Sequence[TrialSpec], environment: ExecutionEnvironment, stopwatch: DeviceSynchronizedClock
) -> MeasurementInputs:
    """Load the data set, or make random inputs of its shape if this machine does not have it.

    Args:
        spec: The data set of the study.
        trials: The trials that will be measured.
        environment: Folders and device.
        stopwatch: Measures the loading.

    Raises:
        DataError: The files of the data set are damaged, or it is neither here nor built in.
    """
    evaluated = {size for trial in trials for size, _ in list_batch_sizes_and_lengths_to_measure(trial)}
    sizes = {trial.training.batch_size for trial in trials} | evaluated
    examples = 2 * max(sizes | {_LEAST_EXAMPLES})
    start = stopwatch.read_seconds()
    try:
        whole = load_and_prepare_data(spec, environment.data, environment.cache, environment.device)
    except DataUnavailableOnMachineError as error:
        random = make_synthetic_prepared_data(spec, examples, environment.device)
        if not (counts := list_known_split_sizes(spec)):
            raise DataError(f"data: {spec.name} has too few examples for these splits: lower validation") from error
        return MeasurementInputs(random, counts, str(error))
    loading = stopwatch.read_seconds() - start
    for size in sizes:
        whole.check_batch_size(size)
    limits = {Split.TRAIN: max(examples, _SMALLEST_TRAINING_SET)}
    splits = {
        split: (select_examples(inputs, slice(limits.get(split, examples))), targets[: limits.get(split, examples)])
        for split, (inputs, targets) in whole.splits.items()
    }
    counts = {split: len(targets) for split, (_, targets) in whole.splits.items()}
    return MeasurementInputs(replace(whole, splits=splits), counts, loading=loading)
