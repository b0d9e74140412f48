"""One network's per-layer configurations searched, and what was chosen confirmed on examples that did not choose."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bln_search.core.enums import LayerSearch
from bln_search.core.errors import DataError, ModelError
from bln_search.core.layer_search_record import LayerSearchRecord, LayerSums
from bln_search.core.records import Outcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.tree.evaluators import Evaluator
from bln_search.evaluation.tree.running_sums import Sums
from bln_search.evaluation.tree.trie import Digits
from bln_search.search.layers.effects import flips, local_effects, marginal_effects
from bln_search.search.layers.loss_source import NetworkFigures
from bln_search.search.layers.objective import Judge
from bln_search.search.layers.strategies import Options, search

Kept = Callable[[Sums], None]


@dataclass(frozen=True)
class Plan:
    """kind: how. evaluations: at most so many each time something is chosen. keep: outcomes of so many best ones."""

    kind: LayerSearch = LayerSearch.EXACT
    evaluations: int = 2_000
    keep: int = 1_000
    options: Options = field(default_factory=Options)


def fold_of(batches: int, folds: int) -> list[int]:
    """For each mini-batch its fold, in turn. Raises DataError for fewer mini-batches than folds."""
    if batches < folds:
        ways = f"lower `folds` to {batches}, or make the mini-batches smaller"
        if batches == 1:
            ways = (
                "make the mini-batches smaller; where one mini-batch is all there is, as of a whole graph, choose one "
                "configuration for all layers with evaluate_configurations, which needs no folds"
            )
        raise DataError(
            f"{folds} folds of {batches} mini-batches: per-layer configurations need at least one mini-batch of the "
            f"validation split in each fold; {ways}"
        )
    return [place % folds for place in range(batches)]


def search_network(
    evaluator: Evaluator,
    folds: Sequence[int],
    plan: Plan,
    *,
    test: Sequence[MiniBatch] | None = None,
    sums: Sums | None = None,
    keep: Kept | None = None,
) -> LayerSearchRecord:
    """Search, confirm, and keep what is best.

    evaluator: of the validation mini-batches, made with these folds. test: mini-batches on which what was chosen is
    reported. sums, keep: where an interrupted enumeration goes on, and what it hands over meanwhile.

    Raises ModelError where no configuration has a finite loss, none is alike in all layers, or the walk does not agree
    with plain forward passes.
    """
    space = evaluator.space
    uniform = np.array(list(space.uniform().values()), np.uint8).reshape(-1, len(space.choices))
    if not len(uniform):
        raise ModelError(
            "no configuration that is alike in all layers has a value, so there is nothing to compare with"
        )
    if plan.kind is LayerSearch.EXACT:
        total = evaluator.enumerate(sums=sums, keep=keep)
        found = total.of_all
        chosen = [space.at(int(np.argmin(found.without(fold)))) for fold in range(len(total.examples))]
        evaluations = float(space.size)
    else:
        evaluator.check()
        found, chosen, evaluations = _searched(evaluator, folds, plan)
    if not np.isfinite(found.mean_loss).any():
        raise ModelError("no per-layer configuration of this network has a finite loss")
    kept = _best(evaluator, found, plan.keep)
    best = tuple(int(digit) for digit in kept[0])
    asked = np.concatenate([kept, uniform, np.array([best, *chosen], np.uint8)])
    outcomes = dict(zip((row.tobytes() for row in asked), evaluator.outcomes(asked), strict=True))
    fold_of_example = np.repeat(np.asarray(folds), evaluator.sizes)
    uniform_outcomes = [outcomes[row.tobytes()] for row in uniform]
    chosen_uniform = [_best_of(uniform, uniform_outcomes, fold_of_example != fold) for fold in range(len(chosen))]
    best_uniform = _best_of(uniform, uniform_outcomes, np.ones(len(fold_of_example), bool))
    effects, marginal = _effects(evaluator, found, best)
    return LayerSearchRecord(
        space=space,
        left_out=evaluator.left_out,
        evaluations=evaluations,
        best=best,
        uniform=best_uniform,
        chosen=tuple(chosen),
        chosen_uniform=tuple(chosen_uniform),
        apparent=_apparent(chosen, outcomes, fold_of_example),
        apparent_uniform=_apparent(chosen_uniform, outcomes, fold_of_example),
        confirmed=_confirmed(chosen, outcomes, fold_of_example),
        confirmed_uniform=_confirmed(chosen_uniform, outcomes, fold_of_example),
        effects=effects,
        marginal=marginal,
        sums=found,
        kept=kept,
        outcomes=tuple(outcomes[row.tobytes()] for row in kept),
        test=None if test is None else _on_test(evaluator, test, [best, best_uniform]),
    )


def _searched(evaluator: Evaluator, folds: Sequence[int], plan: Plan) -> tuple[LayerSums, list[tuple[int, ...]], float]:
    """Without each fold in turn, then on all examples; what one search evaluated is there for the next."""
    figures = NetworkFigures(evaluator)
    batches = range(len(folds))
    chosen = []
    for fold in sorted(set(folds)):
        judge = Judge(figures, [batch for batch in batches if folds[batch] != fold], plan.evaluations)
        search(plan.kind, judge, plan.options)
        chosen.append(judge.best.digits)
    judge = Judge(figures, list(batches), plan.evaluations)
    search(plan.kind, judge, plan.options)
    digits, losses, correct = figures.everything()
    parts = [[batch for batch in batches if folds[batch] == fold] for fold in sorted(set(folds))]
    sums = LayerSums(
        digits,
        np.stack([losses[:, part].sum(1) for part in parts]),
        np.stack([correct[:, part].sum(1) for part in parts]),
        np.array([figures.examples[part].sum() for part in parts]),
    )
    return sums, chosen, figures.evaluations


def _best(evaluator: Evaluator, found: LayerSums, keep: int) -> Digits:
    """The best configurations by mean loss, best first."""
    means = found.mean_loss
    finite = int(np.isfinite(means).sum())
    order = np.argsort(means, kind="stable")[: min(keep, finite)]
    if found.digits is not None:
        return found.digits[order]
    return np.array([evaluator.space.at(int(place)) for place in order], np.uint8)


def _best_of(digits: Digits, outcomes: Sequence[Outcomes], where: NDArray[np.bool_]) -> tuple[int, ...]:
    """The configuration with the lowest mean loss over some of the examples."""
    means = np.array([one.losses[where].mean(dtype=np.float64) for one in outcomes])
    return tuple(int(digit) for digit in digits[int(np.argmin(np.where(np.isnan(means), np.inf, means)))])


def _key(digits: Sequence[int]) -> bytes:
    return np.array(digits, np.uint8).tobytes()


def _apparent(
    chosen: Sequence[Sequence[int]], outcomes: dict[bytes, Outcomes], fold_of_example: NDArray[np.int64]
) -> float:
    means = [
        outcomes[_key(digits)].losses[fold_of_example != fold].mean(dtype=np.float64)
        for fold, digits in enumerate(chosen)
    ]
    return float(np.mean(means))


def _confirmed(
    chosen: Sequence[Sequence[int]], outcomes: dict[bytes, Outcomes], fold_of_example: NDArray[np.int64]
) -> Outcomes:
    first = outcomes[_key(chosen[0])]
    losses, correct = first.losses.copy(), first.correct.copy()
    for fold, digits in enumerate(chosen):
        where = fold_of_example == fold
        losses[where], correct[where] = (values[where] for values in _pair(outcomes[_key(digits)]))
    return Outcomes(losses, correct)


def _pair(outcomes: Outcomes) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    return outcomes.losses, outcomes.correct


def _effects(
    evaluator: Evaluator, found: LayerSums, best: tuple[int, ...]
) -> tuple[dict[tuple[str, str], float], bool]:
    space = evaluator.space
    if found.digits is None:
        return dict(marginal_effects(space, found.mean_loss)), True
    asked = [best, *flips(space, best)]
    losses, _ = evaluator.sums(np.array(asked, np.uint8), range(len(evaluator.batches)))
    means = losses.sum(1) / evaluator.examples
    return dict(local_effects(space, best, float(means[0]), [float(mean) for mean in means[1:]])), False


def _on_test(
    evaluator: Evaluator, test: Sequence[MiniBatch], chosen: Sequence[tuple[int, ...]]
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Loss and accuracy of both; warns where one has no value at the mini-batch size of these, and nothing is told."""
    judge = evaluator.again(evaluator.network, test, evaluator.populations)
    words = [evaluator.space.words(digits) for digits in chosen]
    try:
        digits = [judge.space.digits(one) for one in words]
    except ValueError as error:
        size = len(test[0][0])
        warnings.warn(f"no figures on test, where mini-batches have {size} examples: {error}", stacklevel=2)
        return None
    there = judge.outcomes(digits)
    first, second = ((float(one.losses.mean(dtype=np.float64)), float(one.correct.mean())) for one in there)
    return first, second
