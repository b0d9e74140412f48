"""The two experiments of the BLN paper, from experiments.yaml: published tables, and our studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import yaml
from scipy import stats

from bench.documents.study_losses import Values, losses_of
from bln_search.core.method import Statistic

SWITCHES = tuple(str(statistic) for statistic in Statistic)
"""E_B, Std_B, E_F, Std_F, in the order of a configuration's letters."""


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    Attributes:
        table: Table of the paper.
        result: Name of the result file.
        published: The sixteen configurations by amount of training data, best first: one seed, ranked on test.
        figures: Test loss and accuracy of the published first row, of BN and of LN, if published.
        studies: Published order that each study is compared with; None if none was published.
    """

    table: str
    result: str
    published: dict[str, tuple[str, ...]]
    figures: dict[str, dict[str, tuple[float, float]]]
    studies: dict[str, str | None]


def _read_experiments() -> dict[str, Experiment]:
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    for fields in document.values():
        fields["published"] = {size: tuple(codes.split()) for size, codes in fields["published"].items()}
    return {name: Experiment(**fields) for name, fields in document.items()}


EXPERIMENTS = _read_experiments()


def switch_effect(study: str, switch: str, estimate: str) -> tuple[float, ...]:
    """Return by seed the mean test loss of BLN's eight rows with T less that of the eight rows with F."""
    position, signs = SWITCHES.index(switch), {"T": 2, "F": -2}
    losses = _sixteen_losses(study, estimate)
    return tuple(
        fmean(signs[code[position]] * values[seed] for code, values in losses.items())
        for seed in sorted(losses["FFFF"])
    )


def rank_correlation(study: str, published: Sequence[str], estimate: str) -> tuple[float, ...]:
    """Return by seed Kendall's τ of BLN's sixteen test losses with a published order, best first."""
    losses, ranks = _sixteen_losses(study, estimate), range(len(published))
    return tuple(
        float(stats.kendalltau(ranks, [losses[code][seed] for code in published]).statistic)
        for seed in sorted(losses["FFFF"])
    )


def _sixteen_losses(study: str, estimate: str) -> dict[str, Values]:
    codes = ["".join("TF"[letters >> bit & 1] for bit in range(4)) for letters in range(16)]
    return {code: losses_of(study).first_of((f"bln {code} {estimate}", f"bln {code} -")) for code in codes}
