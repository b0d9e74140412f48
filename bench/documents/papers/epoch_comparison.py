"""Differences of losses by epoch between LN and no normalization."""

from __future__ import annotations

from bench.documents.papers.marks import Comparison, Expected
from bench.documents.papers.seed_values import differences, epoch_values

LAST = -1
"""Number of the last epoch."""


def ln_less_none(
    study: str,
    epoch: int,
    epoch_of_none: int,
    *,
    loss: str = "validation",
    expected: Expected = Expected.NEGATIVE,
    margin: float | None = None,
) -> tuple[Comparison, ...]:
    """Return a loss with LN after an epoch less that without normalization after an epoch.

    Args:
        study: whose curves are in bench/results.
        epoch: counted from 1, or `LAST`.
        epoch_of_none: that of the arm without normalization.
        loss: `training` or `validation`.
        expected: what the claim predicts.
        margin: see `Comparison`.
    """
    values = (
        epoch_values(study, arm, f"{loss}_loss", number) for arm, number in (("ln", epoch), ("none", epoch_of_none))
    )
    setting = f"{loss} loss, ln after {_name(epoch)} less none after {_name(epoch_of_none)}"
    return (Comparison(f"{study}_curves", setting, differences(*values), expected, margin),)


def _name(epoch: int) -> str:
    return "the last epoch" if epoch == LAST else f"epoch {epoch}"
