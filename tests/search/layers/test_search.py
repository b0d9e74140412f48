"""Choices of a search and their validation on other folds, against exhaustive evaluation."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.evaluation.tree.trie import digits_of_all_configurations
from bln_search.search.layers.search import (
    LayerSearchOptions,
    assign_mini_batches_to_folds,
    search_layers_and_cross_validate,
)
from bln_search.search.layers.strategies import StrategyOptions
from tests.evaluation.builders import SIZE, draw_examples
from tests.evaluation.tree.builders import make_evaluator
from tests.storage.searches import assert_same
from tests.support.tiers import latin, thinned

N = 34
"""Six mini-batches, four examples in the last one."""


def make_evaluator_and_folds(folds=2, **options):
    """A network of two layers, 256 configurations, and the folds of its mini-batches."""
    parts = assign_mini_batches_to_folds(6, folds)
    return make_evaluator("mlp", n=N, folds=parts, **options), parts


class ExhaustiveSearch:
    """Losses and correctness of every configuration, as the evaluator gives them one example at a time."""

    def __init__(self, tree, parts):
        self.space, self.every = tree.space, digits_of_all_configurations(tree.space)
        outcomes = tree.evaluate_per_example(self.every)
        self.losses = np.stack([outcome.losses for outcome in outcomes])
        self.correct = np.stack([outcome.correct for outcome in outcomes])
        self.fold = np.repeat(parts, tree.example_counts_by_batch)
        self.uniform = [
            tree.space.index_of_choice_digits(digits)
            for digits in tree.space.choice_digits_by_uniform_configuration().values()
        ]

    def chosen(self, examples, candidates=None):
        """The index of the best one over these examples."""
        candidates = np.arange(len(self.losses)) if candidates is None else np.array(candidates)
        return int(candidates[np.argmin(self.losses[candidates][:, examples].mean(1))])

    def crossed(self, candidates=None):
        """For each fold what is chosen on the others; what that does to each example; the mean loss where it chose."""
        chosen = [self.chosen(self.fold != fold, candidates) for fold in range(max(self.fold) + 1)]
        example_choices = np.array(chosen)[self.fold]
        examples = np.arange(len(self.fold))
        apparent = np.mean([self.losses[index, self.fold != fold].mean() for fold, index in enumerate(chosen)])
        return chosen, self.losses[example_choices, examples], self.correct[example_choices, examples], apparent


@pytest.mark.parametrize(
    ("kind", "folds"),
    thinned(product([LayerSearchAlgorithm.EXACT, LayerSearchAlgorithm.COORDINATE], [2, 3, 6]), 4, start=1),
)
def test_confirmed_outcomes_use_choices_of_other_folds(folds, kind):
    """A coordinate search with every restart there is finds the best of this small space, too."""
    tree, parts = make_evaluator_and_folds(folds)
    plan = LayerSearchOptions(kind, evaluations=10_000, options=StrategyOptions(restarts=40))
    record, expected_record = search_layers_and_cross_validate(tree, parts, plan), ExhaustiveSearch(tree, parts)
    for candidates, chosen, outcomes, apparent in (
        (None, record.chosen, record.confirmed, record.apparent),
        (expected_record.uniform, record.chosen_uniform, record.confirmed_uniform, record.apparent_uniform),
    ):
        indices, losses, correct, mean = expected_record.crossed(candidates)
        assert [tree.space.index_of_choice_digits(digits) for digits in chosen] == indices
        np.testing.assert_allclose(outcomes.losses, losses, rtol=1e-12)
        np.testing.assert_array_equal(outcomes.correct, correct)
        assert apparent == pytest.approx(mean, rel=1e-12)
    assert len(set(record.chosen)) > 1 or folds == 2  # otherwise the folds are not distinguished


def test_best_configurations_are_chosen_on_all_examples():
    tree, parts = make_evaluator_and_folds()
    record, expected_record = (
        search_layers_and_cross_validate(tree, parts, LayerSearchOptions()),
        ExhaustiveSearch(tree, parts),
    )
    all_examples = np.ones(N, bool)
    assert tree.space.index_of_choice_digits(record.best) == expected_record.chosen(all_examples)
    assert tree.space.index_of_choice_digits(record.uniform) == expected_record.chosen(
        all_examples, expected_record.uniform
    )
    assert record.evaluations == 256
    assert record.marginal


def test_sums_cover_every_configuration_and_fold():
    tree, parts = make_evaluator_and_folds(3)
    record, expected_record = (
        search_layers_and_cross_validate(tree, parts, LayerSearchOptions()),
        ExhaustiveSearch(tree, parts),
    )
    for fold in range(3):
        in_fold = expected_record.fold == fold
        np.testing.assert_allclose(record.sums.losses[fold], expected_record.losses[:, in_fold].sum(1), rtol=1e-12)
        np.testing.assert_array_equal(record.sums.correct[fold], expected_record.correct[:, in_fold].sum(1))
        np.testing.assert_allclose(
            record.sums.mean_loss_per_configuration_without_fold(fold),
            expected_record.losses[:, ~in_fold].mean(1),
            rtol=1e-12,
        )
    assert record.sums.examples.tolist() == [12, 12, 10]
    np.testing.assert_allclose(record.sums.mean_loss_per_configuration, expected_record.losses.mean(1), rtol=1e-12)
    np.testing.assert_allclose(record.sums.accuracy_per_configuration, expected_record.correct.mean(1), rtol=1e-12)


@pytest.mark.parametrize("max_outcomes", thinned([1, 20, 10_000], 3, start=1))
def test_best_configurations_are_kept_with_outcomes(max_outcomes):
    tree, parts = make_evaluator_and_folds()
    plan = LayerSearchOptions(keep=max_outcomes)
    record, expected_record = search_layers_and_cross_validate(tree, parts, plan), ExhaustiveSearch(tree, parts)
    order = np.argsort(expected_record.losses.mean(1), kind="stable")[:max_outcomes]
    assert [tree.space.index_of_choice_digits(row.tolist()) for row in record.kept] == order.tolist()
    for index, outcome in zip(order, record.outcomes, strict=True):
        np.testing.assert_allclose(outcome.losses, expected_record.losses[index], rtol=1e-12)


def test_test_figures_are_of_best_and_best_uniform():
    tree, parts = make_evaluator_and_folds()
    inputs, targets = draw_examples("mlp", 20)
    test = list(iter_mini_batches_with_fillers(inputs.flip(0), targets.flip(0), SIZE))
    record = search_layers_and_cross_validate(tree, parts, LayerSearchOptions(), test=test)
    test_outcomes = TreePerLayerEvaluator(tree.network, test, tree.populations).evaluate_per_example(
        [record.best, record.uniform]
    )
    expected = tuple((outcomes.losses.mean(), outcomes.correct.mean()) for outcomes in test_outcomes)
    np.testing.assert_allclose(record.test, expected, rtol=1e-12)
    assert search_layers_and_cross_validate(tree, parts, LayerSearchOptions()).test is None


@pytest.mark.parametrize(
    "kind", thinned([kind for kind in LayerSearchAlgorithm if kind is not LayerSearchAlgorithm.EXACT], 2, start=1)
)
def test_search_records_only_evaluated_configurations(kind):
    tree, parts = make_evaluator_and_folds()
    record = search_layers_and_cross_validate(
        tree, parts, LayerSearchOptions(kind, evaluations=40, options=StrategyOptions(seed=1))
    )
    expected_record = ExhaustiveSearch(tree, parts)
    assert record.evaluations <= 3 * 40  # without each fold, then on all examples
    assert not record.marginal
    rows = [tree.space.index_of_choice_digits(row.tolist()) for row in record.sums.digits]
    assert len(set(rows)) == len(rows)
    assert set(expected_record.uniform) <= set(rows)
    np.testing.assert_allclose(
        record.sums.mean_loss_per_configuration, expected_record.losses.mean(1)[rows], rtol=1e-12
    )
    np.testing.assert_allclose(
        record.sums.accuracy_per_configuration, expected_record.correct.mean(1)[rows], rtol=1e-12
    )
    assert tree.space.index_of_choice_digits(record.best) == min(rows, key=expected_record.losses.mean(1).__getitem__)
    assert record.best == tuple(record.kept[0].tolist())
    _, losses, _, apparent = expected_record.crossed(expected_record.uniform)
    np.testing.assert_allclose(record.confirmed_uniform.losses, losses, rtol=1e-12)
    assert record.apparent_uniform == pytest.approx(apparent)
    example_choices = np.array([tree.space.index_of_choice_digits(digits) for digits in record.chosen])[
        expected_record.fold
    ]
    np.testing.assert_allclose(
        record.confirmed.losses, expected_record.losses[example_choices, np.arange(N)], rtol=1e-12
    )


def test_effects_of_a_search_are_local_to_its_best():
    """Flips that the search did not evaluate are evaluated for them."""
    tree, parts = make_evaluator_and_folds()
    record, expected_record = (
        search_layers_and_cross_validate(tree, parts, LayerSearchOptions(LayerSearchAlgorithm.RANDOM, 20)),
        ExhaustiveSearch(tree, parts),
    )
    means = expected_record.losses.mean(1)
    choice = tree.space.choices[1]
    label = choice.option_codes[record.best[1]]
    switched_digit = choice.option_codes.index({"T": "F", "F": "T"}[label[0]] + label[1:])
    difference = (
        means[tree.space.index_of_choice_digits(record.best)]
        - means[tree.space.index_of_choice_digits((record.best[0], switched_digit))]
    )
    assert record.effects[choice.name, "E_B"] == pytest.approx(difference if label[0] == "T" else -difference)
    assert len(record.effects) == 8


@cache
def enumerated():
    """The record of an enumeration one mini-batch after the other, and the sums behind each of them."""
    tree, parts = make_evaluator_and_folds(memory_limit=0)
    snapshots = {}

    def save_snapshot(sums):
        snapshots[sums.done] = deepcopy(sums)

    return search_layers_and_cross_validate(tree, parts, LayerSearchOptions(), on_progress=save_snapshot), snapshots


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [1, 3, 5, 6])
def test_resumed_enumeration_has_the_same_record(interrupted):
    expected, snapshots = enumerated()
    tree, parts = make_evaluator_and_folds(memory_limit=0)
    progress = []
    resumed = search_layers_and_cross_validate(
        tree,
        parts,
        LayerSearchOptions(),
        resume_from=deepcopy(snapshots[interrupted]),
        on_progress=lambda sums: progress.append(sums.done),
    )
    assert progress == list(range(interrupted + 1, 7))
    assert_same(resumed, expected)


def test_error_of_the_progress_callback_ends_the_enumeration():
    """As where the process is interrupted: nothing is done behind it."""

    class Interrupted(Exception):
        pass

    progress = []

    def fail_after_progress(sums):
        progress.append(sums.done)
        raise Interrupted

    tree, parts = make_evaluator_and_folds(memory_limit=0)
    with pytest.raises(Interrupted):
        search_layers_and_cross_validate(tree, parts, LayerSearchOptions(), on_progress=fail_after_progress)
    assert progress == [1]


def test_tied_layers_are_searched_as_one():
    tree, parts = make_evaluator_and_folds(scope=LayerScope.GROUPS, groups={"both": ["*"]})
    record = search_layers_and_cross_validate(tree, parts, LayerSearchOptions())
    assert record.evaluations == 16
    assert record.best == record.uniform
    assert record.chosen == record.chosen_uniform
    np.testing.assert_array_equal(record.confirmed.losses, record.confirmed_uniform.losses)


@pytest.mark.parametrize(("kind", "weight"), latin(LayerSearchAlgorithm, [float("nan"), float("inf")]))
def test_network_without_finite_loss_raises_model_error(kind, weight):
    tree, parts = make_evaluator_and_folds()
    with torch.no_grad():
        tree.network.layers[-1].weight[:, 0] = weight
    with pytest.raises(ModelError, match="no per-layer configuration of this network has a finite loss"):
        search_layers_and_cross_validate(tree, parts, LayerSearchOptions(kind, 20))


@pytest.mark.parametrize("kind", thinned(LayerSearchAlgorithm, 2))
def test_infinite_losses_are_never_chosen(kind):
    """The first layer's population mean is no number: half of all configurations read it."""
    tree, parts = make_evaluator_and_folds()
    tree.populations[tree.segmented.layers[0]][PopulationEstimate.FROZEN].batch.mean.fill_(float("nan"))
    means = tree.sum_scores_of_all_configurations().mean_loss_per_configuration()
    assert np.isfinite(means).sum() == 128
    record = search_layers_and_cross_validate(tree, parts, LayerSearchOptions(kind, 40))
    for digits in (record.best, record.uniform, *record.chosen, *record.chosen_uniform):
        assert np.isfinite(means[tree.space.index_of_choice_digits(digits)])
    assert np.isfinite([record.apparent, record.apparent_uniform, *record.effects.values()]).all()
    assert np.isfinite([outcome.losses for outcome in record.outcomes]).all()


def test_folds_take_mini_batches_in_turn():
    assert assign_mini_batches_to_folds(5, 2) == [0, 1, 0, 1, 0]
    assert assign_mini_batches_to_folds(3, 3) == [0, 1, 2]
    with pytest.raises(DataError, match=r"3 folds of 2 mini-batches.*lower `folds` to 2, or make"):
        assign_mini_batches_to_folds(2, 3)
