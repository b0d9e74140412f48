"""Sums over mini-batches: by fold, of any order of mini-batches, and resumed."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import LayerScope
from tests.evaluation.tree.builders import TINY_LIMIT, draw_digits, make_evaluator
from tests.support.tiers import latin, thinned


def test_folds_add_up_and_outcomes_keep_the_data_order():
    one_fold, two_folds = make_evaluator("mlp"), make_evaluator("mlp", folds=[1, 0, 1, 0])
    total, sums = one_fold.sum_scores_of_all_configurations(), two_folds.sum_scores_of_all_configurations()
    np.testing.assert_allclose(sums.losses.sum(0), total.losses[0], rtol=1e-12)
    assert sums.examples.tolist() == [8, 12]
    digits = draw_digits(one_fold.space, 5)
    for expected, outcomes in zip(
        one_fold.evaluate_per_example(digits), two_folds.evaluate_per_example(digits), strict=True
    ):
        np.testing.assert_allclose(outcomes.losses, expected.losses, rtol=1e-12)
    losses = two_folds.evaluate_per_example(digits[:1])[0].losses
    np.testing.assert_allclose(
        sums.losses[1, two_folds.space.index_of_choice_digits(digits[0])],
        losses[:6].sum() + losses[12:18].sum(),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("name", "memory_limit"), thinned(latin(["residual", "in place", "lenet"], [0, TINY_LIMIT, 2**28]), 2)
)
def test_sums_do_not_depend_on_cached_prefixes(name, memory_limit):
    scope = {"scope": LayerScope.GROUPS, "groups": {"ends": ["features.3", "classifier.6"]}} if name == "lenet" else {}
    tree = make_evaluator(name, n=33, folds=[0, 1, 0, 1, 0, 1], memory_limit=memory_limit, **scope)
    generator = np.random.default_rng(1)
    first_row = draw_digits(tree.space, 1, seed=2)[0]
    for _ in range(12):
        digits = np.stack([first_row] * 4)
        choice = generator.integers(len(first_row))
        digits[:, choice] = generator.integers(tree.space.num_options_per_choice[choice], size=4)
        batches = [int(batch) for batch in generator.permutation(6)[:4]]
        losses, correct = tree.score_sums_by_batch(digits, batches)
        for row, row_losses, row_correct, outcome in zip(
            digits, losses, correct, tree.evaluate_per_example(digits), strict=True
        ):
            expected = [outcome.losses[6 * batch : 6 * batch + 6].sum() for batch in batches]
            np.testing.assert_allclose(row_losses, expected, rtol=1e-10, err_msg=str(row))
            assert row_correct.tolist() == [outcome.correct[6 * batch : 6 * batch + 6].sum() for batch in batches]
        first_row = digits[0]


@pytest.mark.slow
def test_an_interrupted_enumeration_resumes():
    tree = make_evaluator("mlp", n=30, folds=[0, 1, 0, 1, 0], memory_limit=TINY_LIMIT)
    expected = tree.sum_scores_of_all_configurations()

    class Interrupted(Exception):
        pass

    saved_sums = []

    def keep(sums):
        saved_sums.append(sums)
        if sums.done >= 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        tree.sum_scores_of_all_configurations(keep=keep)
    resumed = tree.sum_scores_of_all_configurations(sums=saved_sums[-1])
    np.testing.assert_array_equal(resumed.losses, expected.losses)
    np.testing.assert_array_equal(resumed.correct, expected.correct)
    assert resumed.done == 5
