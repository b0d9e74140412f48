"""One network under every configuration: its populations, the evaluations of its splits, and its ranked tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from bln_search.api.compiled import run_compiled_networks_eagerly
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.evaluation_data import Condition, EvaluationData, iter_batches_by_size
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.inputs.metrics import CountedExamplesObserver
from bln_search.api.inputs.score import describe_score, last_score_had_correctness
from bln_search.api.preparation import (
    MeasuredPopulations,
    PreparedNetwork,
    get_moments_of_first_data_population,
    list_possible_inference_rows,
)
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.enums import Correction, Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.evaluation import evaluate_split
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.class_counts import ClassCounter
from bln_search.evaluation.split_evaluation import make_evaluations, outcomes_or_undefined_reasons
from bln_search.evaluation.split_metrics import Metric, SplitMetricRecorder
from bln_search.evaluation.split_outcomes import EarlierParts
from bln_search.norms.network.layers import MomentsByEstimate, find_row_of_original_outputs
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.looks import StagedReading
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.score import Score


@dataclass(frozen=True)
class CheckedEvaluationArguments:
    """Checked arguments of `evaluate_configurations`."""

    scoring: Score
    correction: Correction
    weights: MixtureWeights
    batch_sizes: Sequence[int] | None
    forward: Forward | None
    target: Target | None
    metrics: Mapping[str, Metric]
    gathered: MomentsByEstimate | None
    per_slot: bool
    one_pass: bool
    memory_limit: int
    progress: ProgressLines


@dataclass(frozen=True)
class PreparedRows:
    """The rows of one network with the populations that they read, before its splits are read."""

    rows: Sequence[InferenceRow]
    measured: MeasuredPopulations


@dataclass(frozen=True)
class ConditionMeasurements:
    """The evaluations of one condition, values of metrics, and the classes of its targets."""

    evaluations: list[Evaluation] = field(default_factory=list)
    metric_values: dict[EvaluationKey, dict[str, float]] = field(default_factory=dict)
    classes: ClassCounter = field(default_factory=ClassCounter)


@dataclass(frozen=True)
class LoadedSplit:
    """A split in memory: mini-batches of one size, and what those that were evaluated have shown.

    `not_finite_note` names its first mini-batch whose inputs are not finite; None without one.
    """

    loader: str
    batch_size: int
    batches: Sequence[MiniBatch]
    not_finite_note: str | None
    earlier: EarlierParts = field(default_factory=EarlierParts)


class NetworkEvaluator:
    """The evaluation of one network. Its data are checked when it is made; no pass over them begins before.

    Raises:
        ModelError: The network cannot be evaluated.
        DataError: Mini-batches do not fit the network.
    """

    @run_compiled_networks_eagerly()
    def __init__(self, network: nn.Module, data: EvaluationData, settings: CheckedEvaluationArguments) -> None:
        self._settings = settings
        self._network = PreparedNetwork(
            network,
            data,
            score=settings.scoring,
            forward=settings.forward,
            target=settings.target,
            per_slot=settings.per_slot,
            one_pass=settings.one_pass,
            progress=settings.progress,
        )
        self._adapter = self._network.adapter
        data.check_splits_hold_largest_batch(self._adapter, settings.batch_sizes)

    @run_compiled_networks_eagerly()
    def evaluate_and_rank_per_condition(self) -> dict[str | None, RankedConfigurations]:
        """The ranked table of each condition; populations are collected once."""
        prepared = self.prepare_rows()
        tables: dict[str | None, RankedConfigurations] = {}
        for condition in self._network.data.conditions:
            results = ConditionMeasurements()
            for split, loader in condition.splits:
                self.evaluate_split_into(results, split, loader, prepared.rows, prepared)
            tables[condition.name] = self.make_table(condition, prepared, results)
        return tables

    def prepare_rows(self) -> PreparedRows:
        """Collect the populations, and list the rows."""
        measured = self._network.measure_populations(self._settings.gathered, self._settings.correction)
        rows = list_possible_inference_rows(self._network.layers, measured.estimates, self._settings.weights)
        return PreparedRows(rows, measured)

    def make_table(
        self,
        condition: Condition,
        prepared: PreparedRows,
        results: ConditionMeasurements,
        staged_reading: StagedReading | None = None,
    ) -> RankedConfigurations:
        """The ranked table of one condition."""
        settings, layers = self._settings, self._network.layers
        if results.classes.only_class is not None:
            warnings.warn(
                f"every example of {condition.validation.name} has the class {results.classes.only_class}: a network "
                "that always predicts it would be the best. Is the data set sorted by class?",
                stacklevel=2,
            )
        estimates = prepared.measured.estimates
        loaders = [*self._network.data.populations.values(), *(loader for _, loader in condition.splits)]
        return RankedConfigurations(
            board=build_leaderboard_from_evaluations(
                TrialEvaluation(arm="network", seed=0, evaluation=result) for result in results.evaluations
            ),
            populations=prepared.measured.by_estimate,
            outcomes={result.key: result.outcomes for result in results.evaluations if result.outcomes is not None},
            class_prior=results.classes.class_prior_baseline,
            per_slot=settings.per_slot and any(layer.batch_size != 1 for layer in layers.values()),
            deployed=find_row_of_original_outputs(layers, get_moments_of_first_data_population(estimates)),
            has_accuracy=last_score_had_correctness(settings.scoring),
            score=describe_score(settings.scoring),
            metric_values=results.metric_values,
            higher_is_better={name: metric.higher_is_better for name, metric in settings.metrics.items()},
            measured_with=prepared.measured.measured_with,
            target_order=condition.validation.targets_of_first_reading,
            examples_by_loader={
                loader.name: loader.num_examples for loader in loaders if loader.num_examples is not None
            },
            staged_reading=staged_reading,
        )

    def load_validation_split(self, condition: Condition, classes: ClassCounter) -> LoadedSplit:
        """Read the validation split of one condition into memory.

        Raises:
            DataError: A loader yields other examples for this network than for the first one.
        """
        loader = condition.validation
        pairs = self._iter_counted_pairs(Split.VALIDATION, loader, classes)
        batch_size, batches = next(
            (size, list(batches))
            for size, batches in iter_batches_by_size(pairs, self._settings.batch_sizes, loader.name)
        )
        loader.reorder_as_first_reading([])
        return LoadedSplit(loader.name, batch_size, batches, self._adapter.not_finite_note)

    def evaluate_batches_of_split(
        self, split: LoadedSplit, batches: Sequence[int], rows: Sequence[InferenceRow], prepared: PreparedRows
    ) -> list[ExampleOutcomes | str]:
        """Outcomes of each row on the mini-batches at some positions of a split, or the reason why it is undefined."""
        settings = self._settings
        names = [f"mini-batch {position} (counted from 0) of {split.loader}" for position in batches]
        chosen = [split.batches[position] for position in batches]
        settings.progress.start_part(split.loader, "examples", sum(len(targets) for _, targets in chosen))
        inputs = ((name, inputs) for name, (inputs, _) in zip(names, chosen, strict=True))
        with self._adapter.caller.explained_failures(split.loader, inputs):
            return outcomes_or_undefined_reasons(
                self._adapter.network,
                chosen,
                rows,
                prepared.measured.values,
                batch_size=split.batch_size,
                score=settings.scoring,
                one_pass=settings.one_pass,
                memory_limit=settings.memory_limit,
                progress=settings.progress.advance,
                earlier=split.earlier,
            )

    def make_validation_evaluations(
        self, split: LoadedSplit, rows: Sequence[InferenceRow], results: Sequence[ExampleOutcomes | str]
    ) -> list[Evaluation]:
        """The evaluations of rows on the validation split.

        Raises:
            DataError: No example counts.
        """
        evaluations = make_evaluations(
            rows,
            results,
            split=Split.VALIDATION,
            batch_size=split.batch_size,
            has_accuracy=last_score_had_correctness(self._settings.scoring),
        )
        return _add_note_to_diverged_evaluations(evaluations, split.not_finite_note)

    def evaluate_split_into(
        self,
        results: ConditionMeasurements,
        split: Split,
        loader: RoleLoader,
        rows: Sequence[InferenceRow],
        prepared: PreparedRows,
    ) -> None:
        """Add the evaluations of one split at every mini-batch size, and the values of the metrics."""
        settings = self._settings
        of_split: list[Evaluation] = []
        pairs = self._iter_counted_pairs(split, loader, results.classes)
        for batch_size, batches in iter_batches_by_size(pairs, settings.batch_sizes, loader.name):
            examples = loader.count_dataset()
            recorder = SplitMetricRecorder(settings.metrics, len(rows), examples, settings.memory_limit)
            if settings.batch_sizes is not None:
                settings.progress.start_part(f"{loader.name} in mini-batches of {batch_size}", "examples", examples)
            with self._adapter.caller.explained_failures(loader.name):
                evaluations = evaluate_split(
                    self._adapter.network,
                    batches,
                    rows,
                    prepared.measured.values,
                    split=split,
                    batch_size=batch_size,
                    score=settings.scoring,
                    one_pass=settings.one_pass,
                    memory_limit=settings.memory_limit,
                    progress=None if settings.batch_sizes is None else settings.progress.advance,
                    observe=CountedExamplesObserver(recorder.add_outputs, settings.scoring)
                    if settings.metrics
                    else None,
                )
            if not last_score_had_correctness(settings.scoring):
                evaluations = [replace(evaluation, accuracy=None) for evaluation in evaluations]
            evaluations = _add_note_to_diverged_evaluations(evaluations, self._adapter.not_finite_note)
            of_split.extend(evaluations)
            results.metric_values.update(recorder.compute_metrics_of_measured_rows(evaluations))
        results.evaluations.extend(loader.reorder_as_first_reading(of_split))

    def _iter_counted_pairs(self, split: Split, loader: RoleLoader, classes: ClassCounter) -> Iterator[MiniBatch]:
        """The mini-batches of a loader; the classes of the validation split are counted."""
        pairs = self._adapter.iter_input_target_pairs(loader, self._settings.scoring)
        if split is Split.VALIDATION and self._settings.scoring is cross_entropy_and_correctness:
            return classes.iter_batches_and_count_targets(pairs)
        return pairs


def _add_note_to_diverged_evaluations(evaluations: list[Evaluation], note: str | None) -> list[Evaluation]:
    """The evaluations; the reasons of diverged ones name the inputs that are not finite. note: None without these."""
    if note is None:
        return evaluations
    return [
        replace(evaluation, reason=f"{evaluation.reason}; {note}")
        if evaluation.state is EvaluationState.DIVERGED
        else evaluation
        for evaluation in evaluations
    ]
