"""One network under every configuration: checks of its data before any pass, populations, and its ranked tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from bln_search.api.arguments import get_network_device
from bln_search.api.compiled import run_compiled_networks_eagerly
from bln_search.api.estimates import (
    collect_all_population_estimates,
    get_moments_of_first_data_population,
    list_possible_inference_rows,
)
from bln_search.api.fingerprint import NetworkFingerprint
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.condition_loaders import SplitLoaders
from bln_search.api.inputs.evaluation_data import EvaluationData
from bln_search.api.inputs.example_order import ExampleOrder, reorder_evaluations
from bln_search.api.inputs.loaders import iter_batches_by_size
from bln_search.api.inputs.metrics import CountedExamplesObserver, find_dataset_length
from bln_search.api.inputs.role_loader import RoleLoader
from bln_search.api.inputs.score import describe_score, last_score_had_correctness
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.blend import PopulationWeight
from bln_search.core.enums import Correction, Split
from bln_search.core.records import Evaluation, EvaluationKey, ExampleOutcomes
from bln_search.core.states import EvaluationState
from bln_search.evaluation import evaluate_split
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.class_counts import ClassCounter
from bln_search.evaluation.outcome_parts import EarlierParts
from bln_search.evaluation.split_evaluation import make_evaluations, outcomes_or_undefined_reasons
from bln_search.evaluation.split_metrics import Metric, SplitMetricRecorder
from bln_search.norms import Normalization
from bln_search.norms.network.layers import (
    MomentsByEstimate,
    compute_populations_of_layers,
    find_row_of_original_outputs,
    get_norms_by_name,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow, Populations
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
    blends: tuple[PopulationWeight, ...]
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
    """What is known of one network before its splits are read.

    Attributes:
        estimates: Moments of each layer under each estimate.
        populations: The population values of each layer.
        by_estimate: The same by estimate.
        rows: The rows.
        measured_with: Fingerprint of the network.
    """

    estimates: MomentsByEstimate
    populations: Populations
    by_estimate: dict[str, dict[str, Any]]
    rows: Sequence[InferenceRow]
    measured_with: NetworkFingerprint


@dataclass(frozen=True)
class ConditionMeasurements:
    """The evaluations of one condition, values of metrics, and the classes of its targets."""

    evaluations: list[Evaluation]
    metric_values: dict[EvaluationKey, dict[str, float]]
    classes: ClassCounter


@dataclass(frozen=True)
class LoadedSplit:
    """A split in memory.

    Attributes:
        loader: The argument of its loader.
        batch_size: The inference mini-batch size.
        batches: Mini-batches of this size.
        not_finite_note: Its first mini-batch whose inputs are not finite; None without one.
        earlier: What the mini-batches that were evaluated have shown.
    """

    loader: str
    batch_size: int
    batches: Sequence[MiniBatch]
    not_finite_note: str | None
    earlier: EarlierParts


class NetworkEvaluator:
    """The evaluation of one network. Its data are checked when it is made; no pass over them begins before.

    Args:
        network: The network.
        data: Populations and conditions.
        settings: What is evaluated.

    Raises:
        ModelError: The network cannot be evaluated.
        DataError: Mini-batches do not fit the network.
    """

    @run_compiled_networks_eagerly()
    def __init__(self, network: nn.Module, data: EvaluationData, settings: CheckedEvaluationArguments) -> None:
        self._network, self._layers = network, get_norms_by_name(network)
        self._adapter = BatchAdapter(
            network, settings.forward, settings.target, get_network_device(network), settings.progress
        )
        self._data, self._settings = data, settings
        data.try_network_on_first_batches(
            self._adapter, settings.scoring, one_pass=settings.one_pass, per_slot=settings.per_slot
        )
        data.check_splits_hold_largest_batch(self._adapter, settings.batch_sizes)

    @run_compiled_networks_eagerly()
    def evaluate_and_rank_per_condition(self) -> dict[str | None, RankedConfigurations]:
        """The ranked table of each condition; populations are collected once."""
        prepared = self.prepare_rows()
        tables: dict[str | None, RankedConfigurations] = {}
        for condition in self._data.conditions:
            measured = ConditionMeasurements([], {}, ClassCounter())
            for split, loader, _ in condition.iter_splits_with_loaders():
                self._evaluate_split_into(split, loader, prepared.rows, prepared.populations, measured)
            tables[condition.name] = self.make_table(condition, prepared, measured)
        return tables

    def prepare_rows(self) -> PreparedRows:
        """Collect the populations, and list the rows."""
        settings, layers = self._settings, self._layers
        estimates = collect_all_population_estimates(self._adapter, layers, self._data.populations, settings.gathered)
        # after a pass, which creates the weights of lazy layers
        measured_with = NetworkFingerprint.of_network(self._network)
        populations = compute_populations_of_layers(layers, estimates, settings.correction, per_slot=settings.per_slot)
        rows = list_possible_inference_rows(layers, estimates, settings.blends)
        by_estimate = _populations_by_estimate(layers, estimates, populations)
        return PreparedRows(estimates, populations, by_estimate, rows, measured_with)

    def make_table(
        self,
        condition: SplitLoaders[RoleLoader],
        prepared: PreparedRows,
        measured: ConditionMeasurements,
        staged_reading: StagedReading | None = None,
    ) -> RankedConfigurations:
        """The ranked table of one condition."""
        settings, layers = self._settings, self._layers
        return RankedConfigurations(
            board=build_leaderboard_from_evaluations(
                TrialEvaluation(arm="network", seed=0, evaluation=result) for result in measured.evaluations
            ),
            populations=prepared.by_estimate,
            outcomes=_outcomes_by_key(measured.evaluations),
            class_prior=measured.classes.class_prior_baseline,
            per_slot=settings.per_slot and any(layer.batch_size != 1 for layer in layers.values()),
            deployed=find_row_of_original_outputs(layers, get_moments_of_first_data_population(prepared.estimates)),
            has_accuracy=last_score_had_correctness(settings.scoring),
            score=describe_score(settings.scoring),
            metric_values=measured.metric_values,
            higher_is_better={name: metric.higher_is_better for name, metric in settings.metrics.items()},
            measured_with=prepared.measured_with,
            target_order=condition.validation.targets_of_first_reading,
            examples_by_loader={
                loader.name: loader.num_examples
                for loader in [*self._data.populations.values(), condition.validation, condition.test]
                if loader is not None and loader.num_examples is not None
            },
            staged_reading=staged_reading,
        )

    def load_validation_split(self, condition: SplitLoaders[RoleLoader], classes: ClassCounter) -> LoadedSplit:
        """Read the validation split of one condition into memory.

        Raises:
            DataError: A loader yields other examples for this network than for the first one.
        """
        loader, settings = condition.validation, self._settings
        pairs = self._iter_counted_pairs(Split.VALIDATION, loader, classes)
        order = ExampleOrder()
        if self._data.networks > 1:
            pairs = order.record_examples(pairs)
        batch_size, batches = next(
            (size, list(batches)) for size, batches in iter_batches_by_size(pairs, settings.batch_sizes, loader.name)
        )
        if self._data.networks > 1:
            if loader.examples_of_first_reading is None:
                loader.examples_of_first_reading = order.fingerprints
            reorder_evaluations([], order.fingerprints, loader.examples_of_first_reading, loader.name)
        return LoadedSplit(loader.name, batch_size, batches, self._adapter.not_finite_note, EarlierParts())

    def evaluate_batches_of_split(
        self, split: LoadedSplit, batches: Sequence[int], rows: Sequence[InferenceRow], populations: Populations
    ) -> list[ExampleOutcomes | str]:
        """Outcomes of each row on some mini-batches of a split, or the reason why it is undefined.

        Args:
            split: The split.
            batches: Positions of the mini-batches.
            rows: The rows.
            populations: The population values of each layer.
        """
        settings = self._settings
        names = [f"mini-batch {position} (counted from 0) of {split.loader}" for position in batches]
        chosen = [split.batches[position] for position in batches]
        settings.progress.start_part(split.loader, "examples", sum(len(targets) for _, targets in chosen))
        inputs = ((name, inputs) for name, (inputs, _) in zip(names, chosen, strict=True))
        with self._adapter.explained_failures(split.loader, inputs):
            return outcomes_or_undefined_reasons(
                self._adapter.network,
                chosen,
                rows,
                populations,
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

    def evaluate_test_split(
        self,
        condition: SplitLoaders[RoleLoader],
        rows: Sequence[InferenceRow],
        populations: Populations,
        measured: ConditionMeasurements,
    ) -> None:
        """Add the evaluations of the test split, if there is one."""
        if condition.test is not None:
            self._evaluate_split_into(Split.TEST, condition.test, rows, populations, measured)

    def _iter_counted_pairs(self, split: Split, loader: RoleLoader, classes: ClassCounter) -> Iterator[MiniBatch]:
        """The mini-batches of a loader; the classes of the validation split are counted."""
        pairs = self._adapter.iter_input_target_pairs(loader, self._settings.scoring)
        if split is Split.VALIDATION and self._settings.scoring is cross_entropy_and_correctness:
            return classes.iter_batches_and_count_targets(pairs)
        return pairs

    def _evaluate_split_into(
        self,
        split: Split,
        loader: RoleLoader,
        rows: Sequence[InferenceRow],
        populations: Populations,
        measured: ConditionMeasurements,
    ) -> None:
        """Add the evaluations of one split at every mini-batch size, and the values of the metrics."""
        settings = self._settings
        pairs = self._iter_counted_pairs(split, loader, measured.classes)
        targets = ExampleOrder()
        if split is Split.VALIDATION and len(self._data.conditions) > 1:  # conditions are compared example by example
            pairs = targets.record_targets(pairs)
        order = ExampleOrder()
        if self._data.networks > 1:  # each network reads the loader, which may yield its examples in another order
            pairs = order.record_examples(pairs)
        of_split: list[Evaluation] = []
        for batch_size, batches in iter_batches_by_size(pairs, settings.batch_sizes, loader.name):
            recorder = SplitMetricRecorder(
                settings.metrics, len(rows), find_dataset_length(loader.loader), settings.memory_limit
            )
            if settings.batch_sizes is not None:
                part = f"{loader.name} in mini-batches of {batch_size}"
                settings.progress.start_part(part, "examples", find_dataset_length(loader.loader))
            with self._adapter.explained_failures(loader.name):
                evaluations = evaluate_split(
                    self._adapter.network,
                    batches,
                    rows,
                    populations,
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
            measured.metric_values.update(recorder.compute_metrics_of_measured_rows(evaluations))
        if self._data.networks > 1:
            if loader.examples_of_first_reading is None:
                loader.examples_of_first_reading = order.fingerprints
            of_split = reorder_evaluations(of_split, order.fingerprints, loader.examples_of_first_reading, loader.name)
        if targets.has_examples and loader.targets_of_first_reading is None:  # outcomes have the order of this reading
            loader.targets_of_first_reading = targets.fingerprints
        measured.evaluations.extend(of_split)


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


def _populations_by_estimate(
    layers: Mapping[str, Normalization], estimates: MomentsByEstimate, populations: Populations
) -> dict[str, dict[str, Any]]:
    reached = {name: populations[layer] for name, layer in layers.items() if layer in populations}
    return {
        estimate: {name: by_estimate[estimate] for name, by_estimate in reached.items() if estimate in by_estimate}
        for estimate in estimates
    }


def _outcomes_by_key(results: list[Evaluation]) -> dict[EvaluationKey, ExampleOutcomes]:
    return {result.key: result.outcomes for result in results if result.outcomes is not None}
