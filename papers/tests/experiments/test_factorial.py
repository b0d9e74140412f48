"""Effects of a factorial are those of the repeated-measures analysis of variance, and of a plain loop."""

from __future__ import annotations

from itertools import product
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.anova import AnovaRM
from statsmodels.stats.multitest import multipletests

from bench.documents import study_losses
from papers.experiments import factorial
from papers.experiments.factorial import Design, complete_cells, compute_effects

SEEDS = range(5)
DESIGN_OF_THREE = Design({"a": "1", "b": "0", "c": "1"})


def random_cells(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    blocks = rng.normal(size=len(SEEDS))
    return {
        tuple(map(str, levels)): {seed: float(blocks[seed] + sum(levels) + rng.normal()) for seed in SEEDS}
        for levels in product(*(range(size) for size in sizes))
    }


def test_two_levels_have_the_f_of_the_repeated_measures_analysis_of_variance():
    cells = random_cells(2, 2, 2)
    effects = compute_effects(cells, Design({"a": "0", "b": "0", "c": "0"}))
    rows = [
        {**dict(zip("abc", levels, strict=True)), "seed": seed, "error": value}
        for levels, values in cells.items()
        for seed, value in values.items()
    ]
    table = AnovaRM(pd.DataFrame(rows), "error", "seed", within=list("abc")).fit().anova_table["F Value"]
    assert [":".join(effect.levels) for effect in effects] == ["a", "b", "c", "a:b", "a:c", "b:c"]
    for effect in effects:
        t = stats.ttest_1samp(effect.differences, 0).statistic
        assert t**2 == pytest.approx(table[":".join(effect.levels)])


def test_effects_are_differences_and_differences_of_differences_of_means():
    cells = random_cells(3, 2, 2)
    effects = {tuple(effect.levels.items()): effect for effect in compute_effects(cells, DESIGN_OF_THREE)}
    main = [fmean(cells["2", b, c][seed] - cells["1", b, c][seed] for b in "01" for c in "01") for seed in SEEDS]
    assert effects[("a", "2"),].differences == pytest.approx(main)
    interaction = [
        fmean(
            (cells["2", b, "0"][seed] - cells["1", b, "0"][seed])
            - (cells["2", b, "1"][seed] - cells["1", b, "1"][seed])
            for b in "01"
        )
        for seed in SEEDS
    ]
    effect = effects[("a", "2"), ("c", "0")]
    assert effect.differences == pytest.approx(interaction)
    expected = stats.ttest_1samp(interaction, 0).confidence_interval(0.95)
    assert (effect.interval.low, effect.interval.high) == pytest.approx(tuple(expected))


def test_p_values_are_corrected_over_the_main_effects_and_over_the_interactions():
    effects = compute_effects(random_cells(3, 2, 2), Design({"a": "0", "b": "0", "c": "0"}))
    for count in (1, 2):
        family = [effect for effect in effects if len(effect.levels) == count]
        raw = [stats.ttest_1samp(effect.differences, 0).pvalue for effect in family]
        assert [effect.p for effect in family] == pytest.approx(multipletests(raw, method="holm")[1])
    assert len(effects) == 4 + 5


DESIGN = Design({"lambda": "1", "memory": "0"}, ("memory", "lambda", "0"))


def test_level_at_which_a_factor_has_no_effect_is_trained_once_and_left_out_of_the_effects_of_that_factor():
    cells = random_cells(3, 3)
    trained = {levels: values for levels, values in cells.items() if levels[0] != "0" or levels[1] == "0"}
    complete = complete_cells(trained, DESIGN)
    assert all(complete["0", memory] == cells["0", "0"] for memory in "012")
    effects = {tuple(effect.levels.items()): effect.differences for effect in compute_effects(complete, DESIGN)}
    assert {dict(levels).get("lambda") for levels in effects if "memory" in dict(levels)} == {None, "2"}
    expected = [fmean(cells[at, "2"][seed] - cells[at, "0"][seed] for at in "12") for seed in SEEDS]
    assert effects[("memory", "2"),] == pytest.approx(expected)


def test_seed_without_a_combination_is_left_out():
    cells = random_cells(2, 2)
    cells["0", "1"].pop(3)
    assert {len(effect.differences) for effect in compute_effects(cells, Design({"a": "0", "b": "0"}))} == {4}


def test_missing_combination_is_named():
    cells = random_cells(2, 2)
    del cells["1", "0"]
    with pytest.raises(ValueError, match="the factorial lacks 1 0"):
        complete_cells(cells, Design({"a": "0", "b": "0"}))


def test_cells_are_read_from_the_labels_of_a_table(monkeypatch):
    names = [
        f"mbn lambda={value} memory={k} {row} 16"
        for value in (0.1, 0.5)
        for k in (10, 20)
        for row in ("MM-- -", "FF-- -")
    ]
    by_seed = {name: {"test seed 0": [1.0, 0.5 + at / 100]} for at, name in enumerate(names)}
    saved = {"spec": {"training": {"batch_size": 16}}, "loss_and_accuracy_by_seed": by_seed}
    monkeypatch.setattr(study_losses, "load_result", {"factorial": saved}.get)
    monkeypatch.setattr(factorial, "losses_of", study_losses.StudyLosses)
    cells = factorial.read_cells("factorial", Design({"lambda": "0.1", "memory": "10"}))
    assert {levels: values[0] for levels, values in cells.items()} == pytest.approx(
        {("0.1", "10"): 50, ("0.1", "20"): 48, ("0.5", "10"): 46, ("0.5", "20"): 44}
    )
