"""Evaluate a network under every configuration and rank the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack, overload

from torch import nn

from bln_search.api.arguments import (
    CorrectionName,
    parse_batch_sizes,
    parse_flag,
    parse_gathered_moments,
    parse_memory_limit,
    parse_weights,
)
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.evaluation_data import EvaluationData, parse_condition_loaders, parse_population_loaders
from bln_search.api.inputs.loaders import Loader
from bln_search.api.inputs.metrics import UserMetric, parse_metrics
from bln_search.api.inputs.score import UserScore, parse_score
from bln_search.api.network_evaluation import CheckedEvaluationArguments, NetworkEvaluator
from bln_search.api.networks import compute_fingerprints_unless_equal, parse_networks
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.ranked.conditions import RankedConditions
from bln_search.api.ranked.several_networks import combine_tables_over_networks
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.api.staged_evaluation import StopName, check_stop, evaluate_until_decided
from bln_search.core.enums import Correction, parse_enum
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.chunking import MEMORY_LIMIT, release_freed_memory
from bln_search.evaluation.isolated_passes import untouched_networks
from bln_search.norms.moment_collection import LayerMoments


class EvaluationOptions(TypedDict, total=False):
    """Arguments of `evaluate_configurations` that do not change the type of its result."""

    batch_sizes: Sequence[int] | None
    blends: Sequence[float | str]
    moving: Sequence[float | str]
    gathered: Mapping[str, Mapping[str, LayerMoments]] | None
    correction: CorrectionName | Correction
    per_slot: bool
    score: UserScore
    forward: Forward | None
    target: Target | None
    metrics: Mapping[str, UserMetric] | Sequence[str] | None
    one_pass: bool
    memory_limit: int
    progress: bool
    stop: StopName | None


@overload
def evaluate_configurations(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    validation_loader: Mapping[str, Loader],
    *,
    test_loader: Mapping[str, Loader] | None = None,
    **options: Unpack[EvaluationOptions],
) -> RankedConditions: ...


@overload
def evaluate_configurations(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    validation_loader: Loader,
    *,
    test_loader: Loader | None = None,
    **options: Unpack[EvaluationOptions],
) -> RankedConfigurations: ...


def evaluate_configurations(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    validation_loader: Loader | Mapping[str, Loader],
    *,
    test_loader: Loader | Mapping[str, Loader] | None = None,
    batch_sizes: Sequence[int] | None = None,
    blends: Sequence[float | str] = (),
    moving: Sequence[float | str] = (),
    gathered: Mapping[str, Mapping[str, LayerMoments]] | None = None,
    correction: CorrectionName | Correction = "bessel",
    per_slot: bool = False,
    score: UserScore = "cross_entropy",
    forward: Forward | None = None,
    target: Target | None = None,
    metrics: Mapping[str, UserMetric] | Sequence[str] | None = None,
    one_pass: bool = True,
    memory_limit: int = MEMORY_LIMIT,
    progress: bool = True,
    stop: StopName | None = None,
) -> RankedConfigurations | RankedConditions:
    """Evaluate `network` under every configuration of its normalization layers, in one pass, ranked on validation.

    BLN layers without a batch_size get the largest training mini-batch size; otherwise the network is not changed.

    Args:
        network: A network with normalization layers of bln-search. Or a list of such networks, trained alike with
            different seeds: rows are ranked by their means over the networks, and compared over networks and examples.
        train_loader: Mini-batches for the population values, usually the training data; the values are means over the
            mini-batches with the present weights. It yields inputs, alone or with targets, which are not read. Or
            several loaders by name, as in `{"source": train_loader, "target": unlabelled_loader}`: rows are evaluated
            with each population.
        validation_loader: Mini-batches of the inference size, (inputs, targets) or of another structure; their loss
            ranks the rows. A shorter last mini-batch is filled up with examples that are not scored. Or several loaders
            by name, the conditions, as in `{"clean": clean, "noise": noisy}`: rows are ranked in each condition and
            over all of them, with the same populations.
        test_loader: Mini-batches of the test split, whose figures are reported and do not rank the rows; with
            conditions a dictionary with the same names.
        batch_sizes: Inference mini-batch sizes in place of those of the loaders; splits are then loaded into memory.
        blends: Weights α of the population in rows with blended statistics, α·population + (1 - α)·mini-batch: numbers
            between 0 and 1; or prior weights, as in `"N16"` for α = 16/(16+m) with mini-batches of m. Rows with `B` in
            their configuration have them (Schneider et al. 2020).
        moving: Weights w of rows with moving statistics, w·(value before) + (1 - w)·mini-batch, in the form of
            `blends`. Rows with `E` in their configuration have them: they begin at the population in each split, move
            with its mini-batches in their order, and take a forward pass each. With `stop` the order is that of the
            stages.
        gathered: Further population estimates, as `bln_search.norms.moment_collection` collects them during training.
        correction: Correction of population deviations: `bessel` or `total`.
        per_slot: Feature populations have a value for each slot of the mini-batch.
        score: The loss that ranks the rows: `cross_entropy` (softmax, targets are classes), `mse`, `mae`, or `bce`
            (targets from 0 to 1, outputs are logits). Or a function of outputs and targets that returns one loss for
            each example, alone or with correctness (a bool for each example); losses (n, ...) are averaged to (n,).
            A loss module of torch gives the mean that it computes over the whole split, with class weights and
            ignored targets; a function may return `bln_search.ExampleScores`, losses with weights. It is called with
            outputs of several configurations at once. Without correctness the table has no accuracy.
        forward: Calls the network with a mini-batch of any structure and returns its output, as in
            `lambda model, batch: model(**batch).logits`. It must call the model that it is given. By default a tensor
            is the only argument, a list of tensors gives the arguments, and a dictionary the keywords, without the
            targets. Of an output that is no tensor, `logits`, `out` or the first item is taken.
        target: Returns the targets in a mini-batch, as in `lambda batch: batch["y"]`. By default the second of two
            parts, or the key `labels`, `label`, `targets` or `target` of a dictionary that is no input of the network's
            `forward`.
        metrics: Metrics over all examples of a split, by name, as in `{"AUC": function}`: functions of all outputs and
            targets that return a number, objects with `update`, `compute` and `reset` (torchmetrics), or a
            `bln_search.Metric`, which says whether a higher value is better. Or names of metrics of a classification,
            as in `["ece", "brier", "nll"]`; in a dictionary such a name may stand for a function. They do not rank the
            rows, and do not get the examples that the score leaves out. Functions need the outputs of all rows on the
            CPU, rows × examples × the size of an output, at most `memory_limit` bytes.
        one_pass: False evaluates the configurations one after the other, for a network in which layers other than the
            normalization layers mix examples.
        memory_limit: Largest size in bytes of an activation that holds all configurations, and of the outputs that are
            kept for metrics.
        progress: Show a bar in a notebook, else print a line on standard error every ten seconds, after the first ten.
        stop: `decided` reads the validation split, which is then loaded into memory, in stages: an eighth, a quarter, a
            half and all of its mini-batches in a random order. After each stage rows that are significantly worse than
            the best one leave, and the evaluation ends when the verdict on the recommended row stands; figures are then
            means over the examples that were read. The test split is evaluated for rows that are not worse. Not with
            conditions, `metrics`, or several `batch_sizes`.

    Returns:
        The ranked table; with conditions a `RankedConditions`, which has one for each.

    Raises:
        ModelError: The network cannot be evaluated, or several networks have different normalization layers or equal
            parameters; the message says what to change.
        DataError: A loader does not yield mini-batches; the message says what to change.
        ValueError: Another argument is invalid.
        TypeError: `score` is neither a name nor a function, `forward`, `target` or a metric is no function, or another
            argument has a wrong type.

    Example:
        ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader)
        print(ranked)
        print(ranked.recommended, ranked["TTTT"])
    """
    networks = parse_networks(network, "evaluate_configurations(network, train_loader, validation_loader)")
    conditions = parse_condition_loaders(validation_loader, test_loader)
    check_stop(stop, conditions, metrics, batch_sizes)
    settings = CheckedEvaluationArguments(
        scoring=parse_score(score),
        correction=parse_enum(Correction, correction, "correction"),
        weights=MixtureWeights(parse_weights("blends", blends), parse_weights("moving", moving)),
        batch_sizes=parse_batch_sizes(batch_sizes),
        forward=forward,
        target=target,
        metrics=parse_metrics(metrics),
        gathered=parse_gathered_moments(gathered),
        per_slot=parse_flag("per_slot", per_slot),
        one_pass=parse_flag("one_pass", one_pass),
        memory_limit=parse_memory_limit(memory_limit),
        progress=ProgressLines(enabled=parse_flag("progress", progress)),
    )
    populations = parse_population_loaders(train_loader)
    fingerprints = compute_fingerprints_unless_equal(networks)
    try:
        with settings.progress, untouched_networks(networks):
            data = EvaluationData.from_loaders(populations, conditions, networks=len(networks))
            evaluations = [NetworkEvaluator(each, data, settings) for each in networks]
            if stop is not None:
                return evaluate_until_decided(evaluations, data.conditions[0], fingerprints)
            tables = [evaluation.evaluate_and_rank_per_condition() for evaluation in evaluations]
    finally:
        release_freed_memory()
    return combine_tables_over_networks(tables, fingerprints)
