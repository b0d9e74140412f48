"""Text about rows that are no better than the class-prior baseline."""

from __future__ import annotations

from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior


def class_prior_baseline_warning(check: ArmsNoBetterThanPrior) -> str:
    """Which arms have no row better than the baseline, and by which figures."""
    rows = "No row" if check.all_arms else f"No row of {' or '.join(check.arms)}"
    return (
        f"{rows} is better than the class-prior baseline: the lowest {check.split} loss is {check.loss:.4f} (accuracy "
        f"{check.accuracy:.1%}), that of always predicting the class frequencies {check.baseline.loss:.4f} "
        f"({check.baseline.accuracy:.1%}). The network may not have learned anything."
    )
