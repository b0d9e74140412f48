"""Searches keep their budget, start with the uniform configurations, and find good ones."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.search.layers.objective import BudgetedObjective
from bln_search.search.layers.strategies import StrategyOptions, search_within_budget
from tests.search.layers.tables import additive, choice, plain_space, space_of, table_source
from tests.support.tiers import thinned

SEARCHES = [kind for kind in LayerSearchAlgorithm if kind is not LayerSearchAlgorithm.EXACT]
PLAIN = plain_space()
SPACES = {
    "plain": PLAIN,
    "tied": space_of(choice("ends", [0, 2]), choice("middle", [1])),
    "one option": space_of(choice("a", [0], max_options=1), choice("b", [1]), choice("c", [2], max_options=1)),
    "nothing to choose": space_of(choice("a", [0], max_options=1), choice("b", [1], max_options=1)),
    "options without value": space_of(
        choice("a", [0], max_options=5), choice("b", [1]), choice("c", [2], max_options=12)
    ),
    "one layer": plain_space(1),
    "other methods": space_of(choice("a", [0], "bn"), choice("b", [1], "ln"), choice("c", [2], "bln")),
}
every_search = pytest.mark.parametrize("kind", SEARCHES)


class Recording(BudgetedObjective):
    """Writes down what is asked for, in its order."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.order = []

    def mean_losses(self, digits):
        self.order += [tuple(int(digit) for digit in row) for row in np.asarray(digits)]
        return super().mean_losses(digits)


def run_search(kind, budget, *, space=PLAIN, means=None, seed=0, **options):
    means = additive(space) if means is None else means
    objective = Recording(table_source(space, means), range(12), budget)
    search_within_budget(kind, objective, StrategyOptions(seed=seed, **options))
    return objective


def share_better(space, means, objective):
    """The share of all configurations that are better than what was found."""
    return float((means < means[space.index_of_choice_digits(objective.best.digits)]).mean())


@pytest.mark.parametrize("table", range(4))
@pytest.mark.parametrize(("kind", "budget"), [(LayerSearchAlgorithm.BEAM, 300), (LayerSearchAlgorithm.COORDINATE, 110)])
def test_beam_and_coordinate_find_the_best_of_additive_losses(kind, budget, table):
    means = additive(PLAIN, table)
    objective = run_search(kind, budget, means=means, restarts=1)
    assert PLAIN.index_of_choice_digits(objective.best.digits) == int(np.argmin(means))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LayerSearchAlgorithm.TPE, LayerSearchAlgorithm.RACING])
def test_tpe_and_racing_are_better_than_random_search(kind):
    """Over tables and seeds, with as many evaluations: they beat the median of random draws, and come close to best."""
    shares, random_shares = [], []
    for table in range(3):
        means = additive(PLAIN, table)
        shares.append(share_better(PLAIN, means, run_search(kind, 250, means=means, seed=table)))
        random_shares += [
            share_better(PLAIN, means, run_search(LayerSearchAlgorithm.RANDOM, 250, means=means, seed=seed))
            for seed in range(5)
        ]
    assert np.median(shares) < np.median(random_shares)
    assert np.median(shares) < 0.002


def test_random_search_has_the_expected_best_rank():
    means = additive(PLAIN)
    ranks = [
        share_better(PLAIN, means, run_search(LayerSearchAlgorithm.RANDOM, 100, means=means, seed=seed))
        for seed in range(20)
    ]
    assert 0.003 < np.mean(ranks) < 0.03  # the best of a hundred is at one in a hundred


@every_search
@pytest.mark.parametrize("budget", [1, 7, 16, 17, 40, 90.5])
def test_the_budget_is_never_exceeded(kind, budget):
    objective = run_search(kind, budget)
    assert 0 < objective.spent <= budget + 1e-9
    assert objective.improvements


@every_search
@pytest.mark.parametrize("name", thinned(SPACES, 2))
def test_uniform_configurations_are_evaluated_first(kind, name):
    space = SPACES[name]
    uniform = list(space.choice_digits_by_uniform_configuration().values())
    objective = run_search(kind, 60, space=space)
    assert objective.order[: len(uniform)] == uniform
    assert objective.best.loss <= objective.mean_losses(np.array(uniform, np.uint8)).min()


@pytest.mark.slow
@every_search
@pytest.mark.parametrize("name", SPACES)
def test_every_search_of_any_space_ends(kind, name):
    space, means = SPACES[name], additive(SPACES[name])
    budget = (
        90
        if space.num_configurations > 20
        and kind in (LayerSearchAlgorithm.TPE, LayerSearchAlgorithm.RACING, LayerSearchAlgorithm.RANDOM)
        else 10**5
    )
    objective = run_search(kind, budget, space=space)
    assert objective.spent <= min(budget, space.num_configurations) + 1e-9
    if space.num_configurations <= 16 or kind in (LayerSearchAlgorithm.BEAM, LayerSearchAlgorithm.COORDINATE):
        assert space.index_of_choice_digits(objective.best.digits) == int(np.argmin(means))


@pytest.mark.slow
@every_search
def test_search_is_reproducible_by_seed(kind):
    first, repeated = (run_search(kind, 130, seed=3) for _ in range(2))
    assert first.order == repeated.order
    assert first.improvements == repeated.improvements
    if kind in (LayerSearchAlgorithm.TPE, LayerSearchAlgorithm.RACING, LayerSearchAlgorithm.RANDOM):
        assert run_search(kind, 130, seed=4).order != first.order


@every_search
@pytest.mark.parametrize("invalid_loss", [np.inf, np.nan])
def test_some_nan_losses_do_not_stop_a_search(kind, invalid_loss):
    means = additive(PLAIN)
    draw = np.random.default_rng(0)
    means[draw.random(len(means)) < 0.3] = invalid_loss
    uniform = [
        PLAIN.index_of_choice_digits(digits) for digits in PLAIN.choice_digits_by_uniform_configuration().values()
    ]
    means[uniform[0]] = invalid_loss  # what comes first is no number either
    objective = run_search(kind, 150, means=means)
    assert np.isfinite(objective.best.loss)


@every_search
def test_search_ends_when_all_losses_are_nan(kind):
    objective = run_search(kind, 100, means=np.full(PLAIN.num_configurations, np.nan))
    assert objective.spent <= 100
    assert objective.best.loss == np.inf


def test_beam_as_wide_as_the_space_finds_the_best():
    space = plain_space(2)
    means = np.random.default_rng(0).random(space.num_configurations)
    objective = run_search(LayerSearchAlgorithm.BEAM, 10**5, space=space, means=means, width=256)
    assert space.index_of_choice_digits(objective.best.digits) == int(np.argmin(means))


@pytest.mark.parametrize("table", range(8))
@pytest.mark.parametrize("kind", [LayerSearchAlgorithm.COORDINATE, LayerSearchAlgorithm.BEAM])
def test_coordinate_and_narrow_beam_end_in_a_local_minimum(kind, table):
    means = np.random.default_rng(table).random(PLAIN.num_configurations)
    best = run_search(kind, 10**5, means=means, restarts=1, width=1).best.digits
    for position, radix in enumerate(PLAIN.num_options_per_choice):
        for digit in range(radix):
            neighbour = (*best[:position], digit, *best[position + 1 :])
            assert means[PLAIN.index_of_choice_digits(best)] <= means[PLAIN.index_of_choice_digits(neighbour)]


def test_coordinate_ends_with_ties():
    objective = run_search(LayerSearchAlgorithm.COORDINATE, 10**5, means=np.ones(PLAIN.num_configurations))
    assert objective.spent < 500
