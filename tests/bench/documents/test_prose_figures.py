"""Figures in the sentences of a page are those of the result files; every number is explained."""

from __future__ import annotations

import json

import pytest

from bench.documents.prose_figures import FOLDER, check_page
from bench.support import reporting
from tests.conftest import ROOT

PAGE = """# A page of 12 lines

The study has 7 seeds.

## What holds

Table 1 and Eq. 3 to 5 of Ba et al. 2016 (section 6.7) with CIFAR-10 in `8` epochs: the loss is 0.25 nats, and that
of the other one 0.5.

1. With mini-batches of 4 it is **-0.25 ± 0.10**.

<!-- table -->
| 9 | 99 |
<!-- /table -->

```bash
run 17
```
"""
EXPLANATIONS = """
let: |
  {% set losses = load("study").losses %}
figures:
  - the loss is {{ losses[0] }} nats, and that of the other one {{ losses[1] }}
  - "{{ (losses[0] - losses[1])|fmt('.2f') }} ± 0.10"
others: [mini-batches of 4]
"""


@pytest.fixture(name="check")
def _check(monkeypatch, tmp_path):
    """Check PAGE with changes; the study has these losses."""
    monkeypatch.setattr(reporting, "RESULTS", tmp_path)

    def check(page=PAGE, explanations=EXPLANATIONS, losses=(0.25, 0.5)):
        (tmp_path / "study.json").write_text(json.dumps({"losses": losses}))
        (tmp_path / "page.md").write_text(page)
        (tmp_path / "page.yaml").write_text(explanations)
        return check_page(tmp_path / "page.md", tmp_path / "page.yaml")

    return check


def test_references_settings_tables_and_code_need_no_figure(check):
    assert check() == []


def test_another_result_is_named_with_what_the_page_should_say(check):
    problems = check(losses=(0.25, 0.6))
    assert "page.md does not say 'the loss is 0.25 nats, and that of the other one 0.6'" in problems[0]
    assert any(problem.startswith("page.md:7: page.yaml does not explain 0.25 in") for problem in problems)
    assert any(problem.startswith("page.md:8: page.yaml does not explain 0.5 in") for problem in problems)


@pytest.mark.parametrize(
    ("sentence", "number"),
    [
        ("It is 55 to 65 %.", "55"),
        ("Against 0 they do not.", "0"),
        ("It has 25,000 images.", "25,000"),
        ("-1.5e-3", "-1.5e-3"),
    ],
)
def test_a_number_without_an_explanation_is_named_with_its_line(check, sentence, number):
    (first, *_) = check(page=PAGE.replace("1. With", f"{sentence} With"))
    assert first.startswith(f"page.md:10: page.yaml does not explain {number} in")


def test_a_part_within_a_longer_number_explains_nothing(check):
    problems = check(page=PAGE.replace("mini-batches of 4 ", "mini-batches of 4.5 "))
    assert any("does not explain 4.5" in problem for problem in problems)


def test_a_figure_without_a_file_is_named_once_the_file_exists(check, tmp_path):
    explanations = EXPLANATIONS.replace("others:", "unkept: {study_pairs: [mini-batches of 4]}\nothers:")
    assert check(explanations=explanations) == []
    (tmp_path / "study_pairs.json").write_text("{}")
    (problem,) = check(explanations=explanations)
    assert "study_pairs.json exists now" in problem


def test_an_unknown_key_is_an_error(check):
    with pytest.raises(ValueError, match="unknown key settings"):
        check(explanations="settings: []")


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_every_number_of_a_page_is_explained(name):
    assert check_page(ROOT / "docs" / f"{name}.md", FOLDER / f"{name}.yaml") == []
