"""The editor of a new study: drafts, the form, and the YAML text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.pages.editor import page
from service.pages.editor.form import FIELDS, read_form_values_from_yaml, set_field_in_yaml
from service.pages.rendering.labels import format_duration


def check(client, **draft):
    return client.post("/studies/new/check", json=draft)


TEXT = "name: s\ndata: {name: digits}\nmodel: {name: mlp}\narms:\n- {method: bn, momentum: 0.9}\nseeds: [0]\n"


def test_draft_has_a_plan_or_errors_with_lines(client):
    valid = check(client, text=TEXT).json()
    assert valid["mistakes"] == []
    assert valid["plan"]["trials"] == 1
    assert valid["fields"]["methods"] == ["bn"]
    invalid = check(client, text=TEXT.replace("seeds: [0]", "seeds: [-1]")).json()
    assert invalid["plan"] is None
    assert [mistake["line"] for mistake in invalid["mistakes"]] == [6]
    unknown = check(client, text=TEXT.replace("digits", "digit")).json()
    assert [(mistake["line"], "no data set" in mistake["message"]) for mistake in unknown["mistakes"]] == [(2, True)]
    assert check(client, text="x" * 60_000).status_code == 422


def test_plan_is_shown_with_the_durations_of_the_other_pages(client, monkeypatch):
    def shown(seconds):
        monkeypatch.setattr(page, "make_plan_with_estimates", lambda *_: plan.model_copy(update={"seconds": seconds}))
        return check(client, text=TEXT).json()["plan_html"]

    plan = page.PlanOut.model_validate({**check(client, text=TEXT).json()["plan"], "sample_epochs": 0})
    assert "<dt>Networks to train</dt><dd>1</dd>" in shown(None)
    assert "unknown: no similar network" in shown(None)
    assert f"about {format_duration(5025)} on one worker process" in shown(5025)
    assert "no mistake" in check(client, text="name: s\n").json()["plan_html"]


def test_form_field_changes_only_its_value_in_the_text(client):
    methods = check(client, text=TEXT, field="methods", value=["bn", "ln"]).json()
    assert "{method: bn, momentum: 0.9}" in methods["text"], "what an arm had it keeps"
    assert methods["fields"]["methods"] == ["bn", "ln"]
    assert methods["plan"]["trials"] == 2
    seeds = check(client, text=methods["text"], field="seeds", value="0, 1 2").json()
    assert seeds["plan"]["trials"] == 6
    decided = check(client, text=TEXT, field="seeds", value="until decided, at most 10").json()
    assert decided["plan"]["study"]["seeds"] == {"until": "decided", "at_most": 10}
    assert decided["fields"]["seeds"] == "until decided, at most 10"
    rate = check(client, text=TEXT, field="learning_rate", value="1e-3").json()
    assert rate["plan"]["study"]["training"]["learning_rate"] == 0.001
    default_rate = check(client, text=rate["text"], field="learning_rate", value="").json()
    assert "learning_rate" not in default_rate["text"]
    invalid = check(client, text=TEXT, field="epochs", value="many").json()
    assert "epochs" in invalid["mistakes"][0]["message"]


COMMENTED = """# why
name: s   # its name
data: {name: digits}  # small
model:
  name: mlp
  widths: [8]   # narrow
# the arms
arms:
  - {method: bn, momentum: 0.9}
seeds: [0]
training:
  # how long
  epochs: 3
"""
ARM = "arms:\n  - {method: bn, momentum: 0.9}\n"


@pytest.mark.parametrize(
    ("name", "value", "before", "replacement"),
    [
        ("name", "other", "name: s   # its", "name: other   # its"),
        ("data", "mnist", "data: {name: digits}  #", "data: {name: mnist}  #"),
        ("fraction", "0.2", "data: {name: digits}  #", "data: {name: digits, fraction: 0.2}  #"),
        ("model", "lenet", "  name: mlp\n", "  name: lenet\n"),
        ("seeds", "1 2", "seeds: [0]", "seeds: [1, 2]"),
        ("epochs", "7", "  epochs: 3\n", "  epochs: 7\n"),
        ("batch_size", "25", "  epochs: 3\n", "  epochs: 3\n  batch_size: 25\n"),
        ("title", "A: title", "  epochs: 3\n", "  epochs: 3\ntitle: 'A: title'\n"),
        ("population", ["frozen"], "  epochs: 3\n", "  epochs: 3\nevaluation: {population: [frozen]}\n"),
        ("methods", ["bn", "ln"], ARM, f"{ARM}  - {{method: ln}}\n"),
        ("methods", [], ARM, "arms: []\n"),
        ("blends", "0.1, N16", "  epochs: 3\n", "  epochs: 3\nevaluation: {blends: [0.1, N16]}\n"),
        ("inference_sizes", "1 4", "  epochs: 3\n", "  epochs: 3\nevaluation: {batch_sizes: [1, 4]}\n"),
        ("conditions", "fog-3, dim", "  epochs: 3\n", "  epochs: 3\nevaluation: {conditions: [fog-3, dim]}\n"),
        ("epochs", "", "training:\n  # how long\n  epochs: 3\n", "training: {}\n"),
    ],
)
def test_form_field_preserves_the_other_text(name, value, before, replacement):
    assert COMMENTED.count(before) == 1
    assert set_field_in_yaml(COMMENTED, name, value) == COMMENTED.replace(before, replacement)


ARMS = """\
# of the paper
arms:  # three
  - method: bln  # theirs
    semantics: reference
  # a comment of the second
  - {method: bn}  # as usual
  - method: ln
    name: layers
# the end
seeds: [0]
"""


def test_members_of_a_list_keep_their_lines_and_comments():
    fewer = set_field_in_yaml(ARMS, "methods", ["bln", "ln"])
    assert fewer == ARMS.replace("  - {method: bn}  # as usual\n", "")
    edited = set_field_in_yaml(ARMS, "methods", ["bln", "bn", "mbn"])
    assert edited == ARMS.replace("  - method: ln\n    name: layers\n", "  - {method: mbn}\n")


IMAGES = """\
name: s
data: {name: digits}
model: {name: lenet}
arms: [{method: bn}]
seeds: [0]
evaluation:
  batch_sizes: [4]
  conditions:
    # a dark room
    - {name: dim, corruption: contrast, severity: 5}
    - fog-3
  blends: [0.5]
"""


def test_conditions_and_blends_of_a_study_are_fields_of_the_form(client):
    checked = check(client, text=IMAGES).json()
    fields = checked["fields"]
    assert checked["mistakes"] == []
    assert (fields["conditions"], fields["blends"], fields["inference_sizes"]) == ("dim, fog-3", "0.5", "4")
    answer = check(client, text=IMAGES, field="conditions", value="dim, jpeg-2").json()
    assert "# a dark room\n    - {name: dim, corruption: contrast, severity: 5}\n" in answer["text"]
    conditions = answer["plan"]["study"]["evaluation"]["conditions"]
    assert [(each["name"], each["severity"]) for each in conditions] == [("dim", 5), ("jpeg-2", 2)]
    plain = answer["text"]
    for name in ("conditions", "blends"):
        plain = check(client, text=plain, field=name, value="").json()["text"]
    assert read_form_values_from_yaml(plain)["conditions"] == read_form_values_from_yaml(plain)["blends"] == ""
    assert "conditions" not in plain
    assert "blends" not in plain


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("conditions", "rain-3", "no corruption"), ("conditions", "fog-9", "severity"), ("blends", "1.5", "weight")],
)
def test_wrong_condition_or_blend_is_a_mistake_of_its_line(client, name, value, words):
    mistakes = check(client, text=IMAGES, field=name, value=value).json()["mistakes"]
    assert [words in mistake["message"] for mistake in mistakes] == [True]
    assert mistakes[0]["line"] > 6


def test_unpaired_surrogate_is_an_error(client):
    response = client.post("/studies/new/check", json={"text": 'name: "\\ud800"\ndata: {name: digits}\n'})
    assert response.status_code == 200
    assert [mistake["line"] for mistake in response.json()["mistakes"]] == [1]


@given(st.sampled_from([field.name for field in FIELDS]), st.text(max_size=30))
def test_form_entry_changes_no_other_field(name, value):
    fields = read_form_values_from_yaml(set_field_in_yaml(COMMENTED, name, value))
    assert {**fields, name: ""} == {**read_form_values_from_yaml(COMMENTED), name: ""}


def test_form_does_not_change_an_invalid_text():
    duplicate_key = COMMENTED + "seeds: [1]\n"
    assert set_field_in_yaml(duplicate_key, "epochs", "5") == duplicate_key


@given(st.text(max_size=80), st.sampled_from([field.name for field in FIELDS]), st.text(max_size=20))
def test_form_accepts_any_text_and_entry(text, name, value):
    json.dumps(read_form_values_from_yaml(set_field_in_yaml(text, name, value)))
    json.dumps(read_form_values_from_yaml(set_field_in_yaml(TEXT, name, value)))


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{letter}: &{letter} [{', '.join(['*' + chr(ord(letter) - 1)] * 9)}]\n" for letter in "bcdefgh"
)
HOSTILE = {
    "itself": "a: &x [*x]",
    "aliases": "a: &a [1]\nb: [*a, *a]",
    "a bomb": BOMB + "seeds: [*h]\n",
    "brackets": "[" * 2000,
    "nested": "a: " + "{b: " * 400 + "}" * 400,
    "a key": "? {a: 1}\n: 2",
    "an object": "a: !!python/object:x {}",
    "a time": "title: !!timestamp x",
    "a number": "seeds: [0x" + "f" * 4000 + "]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("entry", [{}, {"field": "name", "value": "x"}, {"field": "seeds", "value": "1"}])
def test_hostile_yaml_is_only_an_error(client, text, entry):
    answer = check(client, text=text, **entry)
    assert answer.status_code == 200
    assert answer.json()["plan"] is None
    assert len(answer.content) < 100_000
