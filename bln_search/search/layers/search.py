"""Search one network's per-layer configurations, and confirm the chosen ones on examples that did not choose them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.core.errors import DataError, ModelError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.layer_search_record import FoldScoreSums, LayerSearchRecord
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.tree.per_layer_evaluator import PerLayerEvaluator
from bln_search.evaluation.tree.score_sums import RunningScoreSums
from bln_search.evaluation.tree.trie import Digits
from bln_search.search.layers.effects import (
    list_configurations_with_one_flip,
    local_switch_effects,
    marginal_switch_effects,
)
from bln_search.search.layers.loss_source import CachedNetworkLossSource
from bln_search.search.layers.objective import BudgetedObjective
from bln_search.search.layers.strategies import StrategyOptions, search_within_budget

OnProgress = Callable[[RunningScoreSums], None]
"""Called with the sums of an enumeration after each group of mini-batches."""


@dataclass(frozen=True)
class LayerSearchOptions:
    """How to search.

    Attributes:
        kind: The search.
        evaluations: Budget of evaluations for each choice of a configuration: one for each fold, one for all examples.
        keep: Number of best configurations whose per-example outcomes are stored.
        options: Options of the search.
    """

    kind: LayerSearchAlgorithm = LayerSearchAlgorithm.EXACT
    evaluations: int = 2_000
    keep: int = 1_000
    options: StrategyOptions = field(default_factory=StrategyOptions)


def assign_mini_batches_to_folds(batches: int, folds: int) -> list[int]:
    """The fold of each mini-batch, in turn. Raises DataError if there are fewer mini-batches than folds."""
    if batches < folds:
        remedy = f"lower `folds` to {batches}, or make the mini-batches smaller"
        if batches == 1:
            remedy = (
                "make the mini-batches smaller; if the data are one mini-batch, such as a whole graph, choose one "
                "configuration for all layers with evaluate_configurations, which needs no folds"
            )
        raise DataError(
            f"{folds} folds of {batches} mini-batches: per-layer configurations need at least one mini-batch of the "
            f"validation split in each fold; {remedy}"
        )
    return [batch % folds for batch in range(batches)]


def search_layers_and_cross_validate(
    evaluator: PerLayerEvaluator,
    folds: Sequence[int],
    plan: LayerSearchOptions,
    *,
    test: Sequence[MiniBatch] | None = None,
    resume_from: RunningScoreSums | None = None,
    on_progress: OnProgress | None = None,
) -> LayerSearchRecord:
    """Search a network, confirm the result by cross-validation over the folds, and record the best configurations.

    Args:
        evaluator: Evaluates the validation mini-batches; it was made with the same folds.
        folds: The fold of each mini-batch.
        plan: How to search.
        test: Mini-batches of the test split on which the chosen configurations are reported.
        resume_from: The sums of an interrupted enumeration.
        on_progress: Called with the sums of an enumeration.

    Raises:
        ModelError: No configuration has a finite loss, no uniform configuration is defined, or the evaluator does not
            agree with plain forward passes.
    """
    space = evaluator.space
    uniform = np.array(list(space.choice_digits_by_uniform_configuration().values()), np.uint8).reshape(
        -1, len(space.choices)
    )
    if not len(uniform):
        raise ModelError(
            "no uniform configuration (the same in all layers) is defined, so there is no baseline to compare with"
        )
    if plan.kind is LayerSearchAlgorithm.EXACT:
        enumerated = evaluator.sum_scores_of_all_configurations(sums=resume_from, keep=on_progress)
        sums = enumerated.fold_score_sums
        chosen = [
            space.choice_digits_at_index(int(np.argmin(sums.mean_loss_per_configuration_without_fold(fold))))
            for fold in range(len(enumerated.examples))
        ]
        evaluations = float(space.num_configurations)
    else:
        evaluator.check_against_plain_passes()
        sums, chosen, evaluations = _search_each_fold(evaluator, folds, plan)
    if not np.isfinite(sums.mean_loss_per_configuration).any():
        raise ModelError("no per-layer configuration of this network has a finite loss")
    kept = _list_best_configurations(evaluator, sums, plan.keep)
    best = tuple(int(digit) for digit in kept[0])
    needed = np.concatenate([kept, uniform, np.array([best, *chosen], np.uint8)])
    outcomes = dict(zip((row.tobytes() for row in needed), evaluator.evaluate_per_example(needed), strict=True))
    fold_of_example = np.repeat(np.asarray(folds), evaluator.example_counts_by_batch)
    uniform_outcomes = [outcomes[row.tobytes()] for row in uniform]
    chosen_uniform = [
        _best_configuration_on_examples(uniform, uniform_outcomes, fold_of_example != fold)
        for fold in range(len(chosen))
    ]
    best_uniform = _best_configuration_on_examples(uniform, uniform_outcomes, np.ones(len(fold_of_example), bool))
    effects, marginal = _marginal_or_local_switch_effects(evaluator, sums, best)
    return LayerSearchRecord(
        space=space,
        excluded=evaluator.excluded,
        evaluations=evaluations,
        best=best,
        uniform=best_uniform,
        chosen=tuple(chosen),
        chosen_uniform=tuple(chosen_uniform),
        apparent=_mean_apparent_loss_over_folds(chosen, outcomes, fold_of_example),
        apparent_uniform=_mean_apparent_loss_over_folds(chosen_uniform, outcomes, fold_of_example),
        confirmed=_held_out_outcomes(chosen, outcomes, fold_of_example),
        confirmed_uniform=_held_out_outcomes(chosen_uniform, outcomes, fold_of_example),
        effects=effects,
        marginal=marginal,
        sums=sums,
        kept=kept,
        outcomes=tuple(outcomes[row.tobytes()] for row in kept),
        test=None if test is None else _find_test_loss_and_accuracy(evaluator, test, [best, best_uniform]),
    )


def _search_each_fold(
    evaluator: PerLayerEvaluator, folds: Sequence[int], plan: LayerSearchOptions
) -> tuple[FoldScoreSums, list[tuple[int, ...]], float]:
    """Search without each fold in turn, then on all examples; later searches use the cached losses of earlier ones.

    Returns:
        The sums of the evaluated configurations, the choice without each fold, and the evaluations in all.
    """
    source = CachedNetworkLossSource(evaluator)
    batches = range(len(folds))
    chosen = []
    for fold in sorted(set(folds)):
        training_batches = [batch for batch in batches if folds[batch] != fold]
        objective = BudgetedObjective(source, training_batches, plan.evaluations)
        search_within_budget(plan.kind, objective, plan.options)
        chosen.append(objective.best.digits)
    objective = BudgetedObjective(source, list(batches), plan.evaluations)
    search_within_budget(plan.kind, objective, plan.options)
    digits, losses, correct = source.sums_of_complete_configurations()
    batches_of_fold = [[batch for batch in batches if folds[batch] == fold] for fold in sorted(set(folds))]
    sums = FoldScoreSums(
        digits,
        np.stack([losses[:, indices].sum(1) for indices in batches_of_fold]),
        np.stack([correct[:, indices].sum(1) for indices in batches_of_fold]),
        np.array([source.examples[indices].sum() for indices in batches_of_fold]),
    )
    return sums, chosen, source.cost_in_full_evaluations


def _list_best_configurations(evaluator: PerLayerEvaluator, sums: FoldScoreSums, count: int) -> Digits:
    """The configurations with the lowest mean losses, best first, (configurations, choices)."""
    means = sums.mean_loss_per_configuration
    finite = int(np.isfinite(means).sum())
    order = np.argsort(means, kind="stable")[: min(count, finite)]
    if sums.digits is not None:
        return sums.digits[order]
    return np.array([evaluator.space.choice_digits_at_index(int(index)) for index in order], np.uint8)


def _best_configuration_on_examples(
    digits: Digits, outcomes: Sequence[ExampleOutcomes], examples: NDArray[np.bool_]
) -> tuple[int, ...]:
    """The configuration with the lowest mean loss over these examples."""
    means = np.array([outcome.losses[examples].mean(dtype=np.float64) for outcome in outcomes])
    return tuple(int(digit) for digit in digits[int(np.argmin(np.where(np.isnan(means), np.inf, means)))])


def _encode_configuration(digits: Sequence[int]) -> bytes:
    return np.array(digits, np.uint8).tobytes()


def _mean_apparent_loss_over_folds(
    chosen: Sequence[Sequence[int]], outcomes: dict[bytes, ExampleOutcomes], fold_of_example: NDArray[np.int64]
) -> float:
    """Mean loss of each fold's choice on the other folds, which chose it; averaged over folds."""
    means = [
        outcomes[_encode_configuration(digits)].losses[fold_of_example != fold].mean(dtype=np.float64)
        for fold, digits in enumerate(chosen)
    ]
    return float(np.mean(means))


def _held_out_outcomes(
    chosen: Sequence[Sequence[int]], outcomes: dict[bytes, ExampleOutcomes], fold_of_example: NDArray[np.int64]
) -> ExampleOutcomes:
    """Every example under the configuration that was chosen without the example's fold."""
    first = outcomes[_encode_configuration(chosen[0])]
    losses, correct = first.losses.copy(), first.correct.copy()
    for fold, digits in enumerate(chosen):
        inside = fold_of_example == fold
        outcome = outcomes[_encode_configuration(digits)]
        losses[inside], correct[inside] = outcome.losses[inside], outcome.correct[inside]
    return ExampleOutcomes(losses, correct)


def _marginal_or_local_switch_effects(
    evaluator: PerLayerEvaluator, sums: FoldScoreSums, best: tuple[int, ...]
) -> tuple[dict[tuple[str, str], float], bool]:
    """The effect of each switch, and whether it is averaged over all configurations instead of local to the best."""
    space = evaluator.space
    if sums.digits is None:
        return dict(marginal_switch_effects(space, sums.mean_loss_per_configuration)), True
    around = [best, *list_configurations_with_one_flip(space, best)]
    losses, _ = evaluator.score_sums_by_batch(np.array(around, np.uint8), range(len(evaluator.batches)))
    means = losses.sum(1) / evaluator.num_examples
    return dict(local_switch_effects(space, best, float(means[0]), [float(mean) for mean in means[1:]])), False


def _find_test_loss_and_accuracy(
    evaluator: PerLayerEvaluator, test: Sequence[MiniBatch], chosen: Sequence[tuple[int, ...]]
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Loss and accuracy of two configurations; None with a warning if one is undefined at this mini-batch size."""
    test_evaluator = evaluator.make_evaluator_with_same_options(evaluator.network, test, evaluator.populations)
    configurations = [evaluator.space.configuration_of_choice_digits(digits) for digits in chosen]
    try:
        digits = [
            test_evaluator.space.choice_digits_of_configuration(configuration) for configuration in configurations
        ]
    except ValueError as error:
        size = len(test[0][0])
        warnings.warn(f"no figures on test, where mini-batches have {size} examples: {error}", stacklevel=2)
        return None
    first, second = (
        (float(outcome.losses.mean(dtype=np.float64)), float(outcome.correct.mean()))
        for outcome in test_evaluator.evaluate_per_example(digits)
    )
    return first, second
