"""The prose linter finds unclear wordings and long sentences, and there are none."""

from __future__ import annotations

import re

import pytest

from bench.documents import prose

WORDS_31 = " ".join(["word"] * 31)


def test_there_is_no_problem():
    assert [str(problem) for problem in prose.problems()] == []


@pytest.mark.parametrize(
    "text",
    [
        "A word for each layer",
        "The two rows are not told apart.",
        "24 rows share the first place",
        "It takes nothing from\nthe mini-batch.",
        "what a layer does not notice",
        "too low for having been chosen",
        "it is written whole or not at all",
        "the same command goes on where it was",
        "whoever runs the service",
        "Alone or in company",
    ],
)
def test_an_unclear_wording_is_found(text):
    (problem,) = prose.find_unclear_wording("page.md", text)
    assert problem.text.lower() in " ".join(text.split()).lower()
    assert problem.advice.startswith("write ")


@pytest.mark.parametrize("text", ["accompany", "the letters stand beside the rank", "It was written to a file."])
def test_a_clear_wording_is_left_alone(text):
    assert list(prose.find_unclear_wording("page.md", text)) == []


def test_a_long_sentence_is_found_with_its_number_of_words():
    (problem,) = prose.find_long_sentences("page.md", f"A short one. W{WORDS_31[1:]}. Another short one.")
    assert "31 words" in problem.advice


@pytest.mark.parametrize(
    "markdown",
    [
        f"```bash\n{WORDS_31}\n```",
        f"| cell |\n| {WORDS_31} |",
        f"<!-- table -->\n{WORDS_31}\n<!-- /table -->",
        f"# {WORDS_31}",
        f"`{WORDS_31}` is code.",
        "- " + "\n- ".join(["an entry of a list"] * 10),
    ],
)
def test_what_is_not_a_sentence_is_not_counted(markdown):
    assert list(prose.find_long_sentences("page.md", markdown)) == []


def test_a_link_counts_by_its_text():
    (sentence,) = prose.sentences("Read [the page](studies.md#some-anchor).")
    assert sentence == "Read the page."


def test_a_template_is_checked_by_what_it_shows():
    text = prose.visible_text('<p title="whoever">{{ company }} shown {# company #}<script>company</script></p>')
    assert text.split() == ["shown", "whoever"]


def test_every_source_is_checked():
    places = [place for place, _ in prose.texts()]
    assert {"README.md", "docs/faq.md", "openapi.json", "bln-search run --help"} <= set(places)
    assert "service/templates/study.html" in places
    assert all(text.strip() for place, text in prose.texts() if re.fullmatch(r"\w+\.\w+", place))
