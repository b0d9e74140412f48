"""Rows of studies of Optuna are compared over seeds."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import optuna
import pytest
from optuna.trial import TrialState

import bln_search
from bln_search import DataError, MissingPackageError
from bln_search.integrations.optuna import compare
from tests.docs.pages import PAGES, blocks, written
from tests.integrations.optuna_studies import STORAGES, add, open_storage, score

SEEDS, RATES = 5, (0.01, 0.1, 1.0)


def make_study(rates=RATES, seeds=SEEDS, sign=1, **options):
    study = optuna.create_study(**options)
    for seed in range(seeds):
        for rate in rates:
            add(study, sign * score(rate, seed), rate=rate, seed=seed)
    return study


def expected_of(rates=RATES, seeds=SEEDS):
    return bln_search.compare({f"rate={rate}": [score(rate, seed) for seed in range(seeds)] for rate in rates})


@pytest.mark.parametrize("storage", STORAGES)
def test_a_study_in_any_storage_is_compared_as_its_scores_are(storage, tmp_path):
    with open_storage(storage, tmp_path) as opened:
        result = compare(make_study(storage=opened))
    assert result.to_records() == expected_of().to_records()
    assert result.recommended.name == "rate=0.1"


def test_a_study_that_maximizes_prefers_high_scores():
    result = compare(make_study(sign=-1, direction="maximize"))
    assert (result.best.name, result.lower_is_better) == ("rate=0.1", False)


def test_the_direction_can_be_that_of_a_target():
    study = optuna.create_study(directions=["minimize", "maximize"])
    for seed in range(SEEDS):
        for rate in RATES:
            add(study, [0.0, -score(rate, seed)], rate=rate, seed=seed)
    result = compare(study, target=lambda trial: trial.values[1], direction="maximize")
    assert [row.p for row in result.rows] == [row.p for row in expected_of().rows]
    for options in ({}, {"target": lambda trial: trial.values[1]}, {"direction": "maximize"}):
        with pytest.raises(DataError, match=r"the study has 2 objectives.*target= and direction="):
            compare(study, **options)


def test_a_seed_and_an_arm_may_be_user_attributes():
    study = optuna.create_study()
    for seed in range(SEEDS):
        for rate in RATES:
            add(study, score(rate, seed), user_attrs={"fold": seed, "rate": rate}, width=8)
    result = compare(study, "fold", ["rate"])
    assert result.to_records() == expected_of().to_records()
    assert compare(study, "fold", ["width", "rate"]).best.name == "width=8, rate=0.1"


def make_study_with_widths():
    study = optuna.create_study()
    for seed in range(SEEDS):
        for rate in RATES:
            for width, worse in ((8, 0.0), (16, 0.2)):
                add(study, score(rate, seed) + worse, rate=rate, width=width, seed=seed)
    return study


def test_trials_that_differ_in_a_parameter_beside_the_arms_are_refused_or_averaged():
    study = make_study_with_widths()
    with pytest.raises(DataError, match=r"row 'rate=0.01', seed 0 has two scores, of trials 0 and 1.*arms=.*'mean'"):
        compare(study, arms=["rate"])
    averaged = compare(study, arms=["rate"], repeated="mean")
    assert [row.mean for row in averaged.rows] == pytest.approx([row.mean + 0.1 for row in expected_of().rows])


def test_a_repetition_with_the_same_score_changes_nothing():
    study = make_study()
    add(study, score(0.1, 0), rate=0.1, seed=0)
    assert compare(study).to_records() == expected_of().to_records()


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (TrialState.PRUNED, "trial 15 was pruned"),
        (TrialState.FAIL, "trial 15 failed"),
        (TrialState.RUNNING, "trial 15 is running"),
    ],
)
def test_a_row_that_lacks_a_seed_is_left_out_and_named(state, reason):
    study = make_study()
    add(study, state=state, rate=10.0, seed=0)
    result = compare(study)
    assert result.to_records() == expected_of().to_records()
    assert result.left_out == {"rate=10.0": reason}
    assert f"Left out: rate=10.0 ({reason})." in " ".join(str(result).split())


def test_a_failed_trial_that_was_run_again_and_a_waiting_one_do_not_matter():
    study = make_study()
    add(study, state=TrialState.FAIL, rate=0.1, seed=0)
    study.enqueue_trial({"rate": 7.0, "seed": 0})
    add(study, state=TrialState.FAIL)  # it ended before it had parameters
    assert compare(study).left_out == {}


def test_many_rows_that_are_left_out_are_counted():
    study = make_study()
    for rate in range(2, 9):
        add(study, state=TrialState.PRUNED, rate=rate, seed=0)
    result = compare(study)
    assert all("4 further rows are left out" in " ".join(text.split()) for text in (str(result), result.latex()))
    assert "left out: rate=2 (trial 15 was pruned); " in result.markdown()


def test_a_row_without_a_trial_of_a_seed_is_refused():
    study = make_study()
    add(study, 1.0, rate=10.0, seed=0)
    with pytest.raises(DataError, match=r"row 'rate=10.0', seed 1 has no score \(4 of 20 are missing\)"):
        compare(study)


def test_values_of_different_types_are_different_rows():
    study = optuna.create_study()
    for seed in range(SEEDS):
        for place, value in enumerate((1, "1", True, None, "a [bold]b[/]\nc")):
            add(study, place + score(0.1, seed), user_attrs={"seed": seed, "x": value})
    result = compare(study, arms=["x"])
    assert {row.name for row in result.rows} == {"x=1", "x='1'", "x=True", "x=None", "x=a [bold]b[/]\nc"}
    assert "x='1'" in str(result)


HOSTILE = [
    ({"seed": [1, 2]}, {}, r"trial 15 has the seed \[1, 2\]: a seed is a number or a text"),
    ({"seed": {"a": 1}}, {}, "trial 15 has the seed"),
    ({}, {}, "trial 15 has no parameter and no user attribute 'seed'"),
    ({"seed": 0}, {"arms": ["optimizer"]}, "no user attribute 'optimizer': arms= names what identifies a row"),
    ({"seed": float("nan")}, {}, "has no score"),
    ({"seed": "0"}, {}, "has no score"),
    ({"seed": 0}, {"arms": "rate"}, r"arms='rate' is one text: give a list of names, such as arms=\['rate'\]"),
    ({"seed": 0}, {"direction": "up"}, "direction='up'"),
    ({"seed": 0}, {"repeated": "best"}, "repeated='best'"),
    ({"seed": 0}, {"seeds": None}, r"trial 0 has reported no score: call trial.report\(score, step=seed\)"),
    ({"seed": 0}, {"seeds": None, "target": float}, "target= belongs to trials of one seed"),
    ({"seed": 0}, {"target": lambda trial: trial.user_attrs}, "target= gives .* for trial"),
    ({"seed": 0}, {"target": lambda _: float("nan"), "arms": []}, "has two scores"),
    ({"seed": 0}, {"arms": []}, "has two scores"),
]


@pytest.mark.parametrize(("attributes", "options", "message"), HOSTILE)
def test_bad_input_is_refused_with_what_to_do(attributes, options, message):
    study = make_study()
    add(study, 1.0, user_attrs=attributes, rate=10.0)
    with pytest.raises(DataError, match=message):
        compare(study, **options)


def test_studies_without_enough_rows_and_seeds_are_refused():
    with pytest.raises(DataError, match="the table has 0 rows"):
        compare(optuna.create_study())
    with pytest.raises(DataError, match="at least two seeds"):
        compare(make_study(seeds=1))
    study = make_study(rates=(0.1,))
    add(study, state=TrialState.PRUNED, rate=1.0, seed=0)
    with pytest.raises(DataError, match=r"only 'rate=0.1' has all seeds.*'rate=1.0': trial 5 was pruned"):
        compare(study)
    empty = optuna.create_study()
    add(empty, state=TrialState.FAIL, rate=1.0, seed=0)
    with pytest.raises(DataError, match="the table has 0 rows"):
        compare(empty)
    with pytest.raises(DataError, match="study is a dict"):
        compare({"a": [1, 2], "b": [1, 3]})


def test_a_target_that_is_not_finite_is_refused_with_its_place():
    with pytest.raises(DataError, match=r"row 'rate=0.01', seed 0 has the score nan"):
        compare(make_study(), target=lambda trial: float("nan") if trial.number == 0 else trial.value)


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "bln_search.integrations.optuna")
    with pytest.raises(MissingPackageError, match=r"optuna.*'bln-search\[search\]'"):
        import_module("bln_search.integrations.optuna")


def test_the_code_of_the_page_runs_and_has_at_most_ten_lines_each(capsys):
    section = written(PAGES["integrations.md"]).partition("\n## Optuna\n")[2].partition("\n## ")[0]
    first, second = (block.text for block in blocks(PAGES["integrations.md"], "python") if block.text in section)
    assert all(len(re.findall(r"^.*\S.*$", text, re.MULTILINE)) <= 10 for text in (first, second))
    exec(first + second, {"__name__": "page"})
    first_table, second_table = capsys.readouterr().out.split("The answer is for new seeds")[:2]
    assert "Recommended: rate=0.01" in first_table
    assert "Recommended: rate=" in second_table
