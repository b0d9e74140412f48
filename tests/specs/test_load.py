"""Every problem of a study file is reported with its line and a remedy."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.errors import SpecError
from bln_search.specs import load_study, parse_study
from tests.conftest import ROOT
from tests.specs.minimal_study import MINIMAL_STUDY, problems
from tests.support.numbers import numbers_in


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_studies_are_valid_and_named_like_their_files(path):
    assert load_study(path).name == path.stem


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trainning: {epochs: 3}", "line 6: trainning: unknown key; did you mean `training`?"),
        ("training: {epochs: -3}", "line 6: training.epochs: must be at least 1, not -3"),
        ("training: {learning_rate: .nan}", "line 6: training.learning_rate: must be a finite number, not nan"),
        ("training: {learning_rate: 0}", "line 6: training.learning_rate: must be greater than 0, not 0"),
        ("training:\n  momentum: 0.9", "line 6: training: momentum belongs to the optimizer sgd, not to adam"),
        ("seeds: [1, 1]", "seeds has the value 1 more than once"),
        ("seeds: []", "line 6: seeds"),
        ("evaluation: {population: [frosen]}", "line 6: evaluation.population.0: must be 'frozen', 'epoch'"),
        ("ranking: {split: train}", "rank on validation"),
        ("name: again", "line 6: the key `name` is repeated"),
        ("title: [1", "this is not YAML"),
        ("training: &a {epochs: 3}\nevaluation: *a", "line 7: YAML aliases"),
        ("? [a]\n: b", "line 6: a key is a single word"),
        ("training: {epochs: yes}", "line 6: training: epochs does not take yes or no"),
        ("seeds: [yes]", "seeds does not take yes or no"),
        ("seeds: [!!int '']", "line 6: this value cannot be read"),
        ("seeds: !!bool maybe", "line 6: this value cannot be read"),
        (f"seeds: [0x{'f' * 5000}]", "line 6: this number has 5,002 characters"),
    ],
)
def test_problem_has_its_line_and_remedy(line, expected):
    assert any(expected in problem for problem in problems(MINIMAL_STUDY + line)), problems(MINIMAL_STUDY + line)


def test_fraction_may_have_an_exponent():
    assert parse_study(MINIMAL_STUDY.replace("name: digits", "name: digits, validation: 1e-1")).data.validation == 0.1


@pytest.mark.parametrize("value", ["1.5", "0", "-1", ".inf", ".nan", "[1]", "half"])
def test_invalid_validation_is_one_problem(value):
    (problem,) = problems(MINIMAL_STUDY.replace("name: digits", f"name: digits, validation: {value}"))
    assert "line 2: data.validation: give the number of validation examples, or their fraction below 1" in problem


@pytest.mark.parametrize(("value", "expected"), [("0.2", 0.2), ("300", 300), ("1.0", 1), ("1e3", 1000)])
def test_validation_is_a_count_or_a_fraction(value, expected):
    text = MINIMAL_STUDY.replace("name: digits", f"name: digits, validation: {value}") + "\ntraining: {batch_size: 1}\n"
    assert parse_study(text).data.validation == expected


def test_misspelled_method_lists_the_valid_ones():
    (problem,) = problems(MINIMAL_STUDY.replace("bln", "blm"))
    assert problem.startswith("line 5: arms.0.method: ")
    assert re.findall(r"'(\w+)'", problem) == ["bn", "ln", "bln", "mbn", "brn", "wn", "normprop", "ap2", "none", "blm"]


def test_all_problems_are_reported_together():
    messages = problems("name: A B\ndata: {nam: digits}\nmodel: {name: mlp}\narms: [{method: bm}]\nseed: 3\n")
    assert len(messages) == 5


def test_problems_are_in_the_order_of_their_lines():
    messages = problems("name: A B\ndata: {nam: digits}\nseed: 3\nmodel: {name: mpl}\narms: [{method: bm}]\n")
    lines = [int(message.partition(":")[0].removeprefix("line ")) for message in messages]
    assert len(lines) > 4
    assert lines == sorted(lines)


def test_unknown_names_are_reported_with_other_problems():
    messages = problems("name: A B\ndata: {name: digit}\nmodel: {name: mpl}\narms: [{method: bln}]\n")
    assert [problem.split(": ")[:2] for problem in messages] == [
        ["line 1", "name"],
        ["line 2", "data.name"],
        ["line 3", "model.name"],
    ]
    messages = problems(
        MINIMAL_STUDY.replace("name: digits", "name: digit").replace("name: mlp", "name: mlp, embedding: 4")
    )
    assert ["there is no data set 'digit'" in messages[0], "the model mlp has no option" in messages[1]] == [True, True]


def test_a_wrong_value_asks_for_a_similar_one():
    messages = problems("name: a\ndata: {name: digit}\nmodel: {name: mpl}\narms: [{method: blm}, {method: foo}]\n")
    suggested = [problem.partition("did you mean ")[2] for problem in messages]
    assert suggested == ["`digits`?", "`mlp`?", "`bln`?", ""]


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "\0", "!!python/object:os.system x: 1"])
def test_text_that_is_no_study_is_rejected(text):
    assert problems(text)


def test_missing_or_oversized_file_is_rejected(tmp_path):
    with pytest.raises(SpecError, match="there is no such file"):
        load_study(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_text("#" * 1_000_001)
    with pytest.raises(SpecError, match="1000001 bytes"):
        load_study(tmp_path / "big.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="UTF-8"):
        load_study(tmp_path / "bytes.yaml")


NUMBER_KEYS = {
    "equal hashes": lambda number: number * (2**61 - 1),
    "integers": int,
    "fractions": lambda number: number / 1_000,
}


@pytest.mark.parametrize(
    ("kind", "place"), list(zip(NUMBER_KEYS, ["{}", "arms: {}", "arms: [{{method: {}}}]"], strict=True))
)
def test_a_mapping_has_at_most_100_numbers_as_keys(kind, place):
    def keys(count):
        return place.format("{" + ", ".join(f"{NUMBER_KEYS[kind](number)}: 0" for number in range(count)) + "}")

    assert not any("keys that are numbers" in problem for problem in problems(keys(100)))
    (problem,) = problems(keys(12_000))
    assert "keys that are numbers" in problem


DEEP = {
    "brackets": "name: x\na: " + "[" * 50_000,
    "closed brackets": "name: x\na: " + "[" * 500 + "]" * 500,
    "braces": "name: x\na: " + "{b: " * 5_000,
    "dashes": "\n" + "- " * 5_000,
    "keys": "name: x\n" + "? " * 5_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deeply_nested_text_is_rejected(text):
    (problem,) = problems(text)
    line, levels = 2, 50
    assert numbers_in(problem) == [line, levels]


def test_brackets_in_strings_are_not_nesting():
    assert parse_study(MINIMAL_STUDY + 'title: "' + "[" * 60 + '"').title == "[" * 60


def test_too_many_values_are_rejected():
    (problem,) = problems("seeds: [" + "0, " * 50_000 + "]")
    assert numbers_in(problem) == [25_000]
    assert 1_000_001 in numbers_in(problems("#" * 1_000_001)[0])


@given(st.text(max_size=200))
def test_any_text_is_a_study_or_a_spec_error(text):
    try:
        parse_study(text)
    except SpecError as error:
        assert error.problems


keys = st.sampled_from(["name", "data", "model", "arms", "training", "seeds", "evaluation", "ranking", "epochs", "x"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(keys, values, max_size=6))
def test_any_structure_is_a_study_or_a_spec_error(value):
    import yaml

    try:
        parse_study(yaml.safe_dump(value))
    except SpecError as error:
        assert error.problems


def test_duplicates_are_reported_with_other_problems():
    messages = problems(MINIMAL_STUDY + "  - method: bln\nseeds: [1, 1]\ntitel: a")
    assert sorted(message.partition(": ")[2].partition(":")[0] for message in messages) == ["arms", "seeds", "titel"]
