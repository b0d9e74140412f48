"""Main effects and two-factor interactions of a study that trains every combination of several factors.

Seeds are blocks: each effect is a contrast of cell means within a seed, so its test is the paired t test over seeds. A
main effect is the mean over the other factors at a level less that at the reference level. An interaction is how much
one such difference changes from the reference level of another factor to a level of it (Kirk 2013, Experimental
Design, chapter 9). For factors of two levels, t² of a contrast is the F of the repeated-measures analysis of variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean

from bench.documents.study_losses import Values, losses_of
from bln_search.ranking.statistics.intervals import (
    ConfidenceInterval,
    adjust_p_values_by_holm,
    mean_with_t_interval,
    paired_t_test_p_value_of_differences,
)

Levels = tuple[str, ...]
"""A level of each factor, in the order of the design."""

Cells = Mapping[Levels, Values]
"""Value by seed of each combination."""


@dataclass(frozen=True)
class Design:
    """The factors of a study.

    Attributes:
        references: The reference level of each factor.
        without_effect: A factor, with the other factor and its level at which the first one has no effect. Effects of
            the first one leave that level out.
    """

    references: Mapping[str, str]
    without_effect: tuple[str, str, str] | None = None

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors in order."""
        return tuple(self.references)


@dataclass(frozen=True)
class Effect:
    """A main effect or an interaction.

    Attributes:
        levels: The level of each factor that is compared with the reference level.
        differences: The contrast for each seed.
        p: p value after Holm's correction over the effects with the same number of factors.
    """

    levels: Mapping[str, str]
    differences: tuple[float, ...]
    p: float

    @property
    def interval(self) -> ConfidenceInterval:
        """Mean and 95 % confidence interval over seeds, without correction."""
        return mean_with_t_interval(self.differences)


_PAPER = {"lambda": "0:0.1,0.4:0.5,0.6:0.9", "memory": "20"}

MBN = Design({**_PAPER, "learning_rate": "0.1"}, ("memory", "lambda", "0"))
"""The factorial of MBN, with the values of the paper as references. With λ = 0 the memory has no effect."""

MBN_ONE_RATE = Design(_PAPER, ("memory", "lambda", "0"))
"""The same at one learning rate."""


def read_cells(study: str, design: Design, row: str = "MM-- -") -> Cells:
    """Return the test error in % of each combination from the table of a study, by seed.

    Args:
        study: Its name in bench/results.
        design: Its factors.
        row: Configuration and population estimate.

    Raises:
        ValueError: A combination is missing.
    """
    table = losses_of(study)
    cells: dict[Levels, Values] = {}
    for name in table.table["loss_and_accuracy_by_seed"]:
        label = name.rpartition(" ")[0]
        values = dict(part.split("=", 1) for part in label.split() if "=" in part)
        if label.endswith(f" {row}") and values.keys() >= design.references.keys():
            levels = tuple(values[factor] for factor in design.factors)
            cells[levels] = table.row(label, metric="error", factor=100)
    return complete_cells(cells, design)


def complete_cells(cells: Cells, design: Design) -> Cells:
    """Return the cells with those that are trained once because a factor has no effect at them.

    Raises:
        ValueError: A combination is missing.
    """
    complete = dict(cells)
    if design.without_effect is not None:
        factor, other, level = design.without_effect
        at, other_at = design.factors.index(factor), design.factors.index(other)
        for levels, values in cells.items():
            if levels[other_at] == level:
                for same in _levels(cells, at):
                    complete.setdefault((*levels[:at], same, *levels[at + 1 :]), values)
    missing = set(product(*(_levels(cells, at) for at in range(len(design.factors))))) - complete.keys()
    if missing:
        raise ValueError(f"the factorial lacks {', '.join(sorted(map(' '.join, missing))) or 'all combinations'}")
    return complete


def compute_effects(cells: Cells, design: Design) -> list[Effect]:
    """Return the main effects, then the two-factor interactions, each against the reference levels.

    Args:
        cells: All combinations. Seeds that lack one are left out.
        design: The factors.
    """
    effects = []
    for count in (1, 2):
        contrasts = list(_iter_contrasts(cells, design, count))
        p_values = [paired_t_test_p_value_of_differences(differences) for _, differences in contrasts]
        adjusted = adjust_p_values_by_holm([1.0 if p is None else p for p in p_values])
        effects += [Effect(*contrast, p) for contrast, p in zip(contrasts, adjusted, strict=True)]
    return effects


def _iter_contrasts(cells: Cells, design: Design, count: int) -> Iterator[tuple[dict[str, str], tuple[float, ...]]]:
    """Yield the compared levels of each subset of `count` factors, and their contrast for each seed."""
    seeds = sorted(set.intersection(*(set(values) for values in cells.values())))
    for subset in combinations(design.factors, count):
        chosen = _cells_with_effect(cells, design, subset)
        places = [design.factors.index(factor) for factor in subset]
        references = [design.references[factor] for factor in subset]
        others = [
            [level for level in _levels(chosen, place) if level != reference]
            for place, reference in zip(places, references, strict=True)
        ]
        for levels in product(*others):
            pairs = list(zip(references, levels, strict=True))
            contrast = tuple(_contrast(chosen, places, pairs, seed) for seed in seeds)
            yield dict(zip(subset, levels, strict=True)), contrast


def _cells_with_effect(cells: Cells, design: Design, subset: tuple[str, ...]) -> Cells:
    """Return the cells at which the factors have an effect."""
    if design.without_effect is None or design.without_effect[0] not in subset:
        return cells
    _, other, level = design.without_effect
    place = design.factors.index(other)
    return {levels: values for levels, values in cells.items() if levels[place] != level}


def _contrast(cells: Cells, places: list[int], pairs: list[tuple[str, str]], seed: int) -> float:
    """Return the difference of a seed, of differences for two factors, between means over the other factors."""
    total = 0.0
    for sides in product((0, 1), repeat=len(places)):
        corner = [pair[side] for pair, side in zip(pairs, sides, strict=True)]
        members = [values[seed] for levels, values in cells.items() if [levels[place] for place in places] == corner]
        total += (-1) ** (len(places) - sum(sides)) * fmean(members)
    return total


def _levels(cells: Cells, place: int) -> list[str]:
    return list(dict.fromkeys(levels[place] for levels in cells))
