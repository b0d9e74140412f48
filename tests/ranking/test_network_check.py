"""The verdict of a check: change a network only for a significant gain above the margin."""

from __future__ import annotations

import pytest

from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import CheckedVariant, CheckVerdict, Variant, decide

DEPLOYED = CheckedVariant(
    variant=Variant.DEPLOYED, batch_size=8, loss=1.0, accuracy=None, difference=None, is_candidate=False
)


def row(variant, low, high, loss=None):
    mean = (low + high) / 2
    return CheckedVariant(
        variant=variant,
        batch_size=8,
        loss=1 + mean if loss is None else loss,
        accuracy=None,
        difference=MeanDifference(mean=mean, low=low, high=high, p=0.5, adjusted=0.5),
        is_candidate=True,
    )


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.005, 0.3, CheckVerdict.KEEP),
        (-0.009, -0.002, CheckVerdict.KEEP),
        (-0.2, 0.1, CheckVerdict.CANNOT_TELL),
        (-0.03, -0.001, CheckVerdict.CANNOT_TELL),
        (-0.4, -0.1, CheckVerdict.CHANGE),
    ],
)
def test_the_verdict_depends_on_the_interval_and_the_margin(low, high, verdict):
    found, chosen = decide([DEPLOYED, row(Variant.RE_ESTIMATED, low, high)], 0.01)
    assert found is verdict
    assert chosen is (Variant.RE_ESTIMATED if verdict is CheckVerdict.CHANGE else Variant.DEPLOYED)


def test_among_equally_good_variants_the_first_is_chosen():
    rows = [DEPLOYED, row(Variant.MINI_BATCH, -0.41, -0.1), row(Variant.RE_ESTIMATED, -0.4, -0.1)]
    assert decide(rows, 0.01)[1] is Variant.RE_ESTIMATED
    assert decide(rows, 0.001)[1] is Variant.MINI_BATCH


def test_any_finite_variant_replaces_a_loss_that_is_not_finite():
    broken = DEPLOYED.model_copy(update={"loss": None})
    finite = row(Variant.RE_ESTIMATED, 0, 0, loss=2.0).model_copy(update={"difference": None})
    assert decide([broken, finite], 0.01) == (CheckVerdict.CHANGE, Variant.RE_ESTIMATED)
    assert decide([broken], 0.01) == (CheckVerdict.CANNOT_TELL, Variant.DEPLOYED)
