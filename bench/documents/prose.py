"""Prose linter: no unclear wording in what a person reads, no long sentences on the pages.

`python -m bench.documents.prose` checks README, docs, the help of the command line, the templates of the service and
the descriptions in openapi.json. It ends with exit code 1 if there is a problem. `make check` runs it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MAX_WORDS = 30
"""Longest sentence; inline code counts as one word. 25 words are the rule."""

RESULT_PAGES = frozenset(
    {"bln_cifar10.md", "bln_imdb.md", "figures.md", "invariances.md", "ln_mnist.md", "networks.md"}
)
"""Pages of results, whose generated sentences list figures."""

REPLACEMENTS: Mapping[str, str] = yaml.safe_load(Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8"))
"""Regular expressions of unclear wording, and the term to use."""


@dataclass(frozen=True)
class Problem:
    """A problem of a text.

    Attributes:
        place: File, or command.
        text: The words that are wrong.
        advice: What to write.
    """

    place: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text!r}: {self.advice}"


def find_unclear_wording(place: str, text: str) -> Iterator[Problem]:
    """Every wording of `REPLACEMENTS` in the text."""
    flat = " ".join(text.split())
    for pattern, term in REPLACEMENTS.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", flat, re.IGNORECASE):
            yield Problem(place, match[0], f"write {term}")


def find_long_sentences(place: str, markdown: str) -> Iterator[Problem]:
    """Every sentence of a page with more than `MAX_WORDS` words."""
    for sentence in sentences(markdown):
        count = len(sentence.split())
        if count > MAX_WORDS:
            yield Problem(place, f"{' '.join(sentence.split()[:8])} ...", f"{count} words: at most {MAX_WORDS}")


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of a page without generated parts, code blocks and tables; inline code is one word."""
    text = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->|<!--.*?-->", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\|.*|#.*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "`code`", text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", f"\n{text}"):
        flat = " ".join(paragraph.split())
        yield from (sentence for sentence in re.split(r"(?<=[.!?])[)*_]* (?=[A-Z`*(\[0-9])", flat) if sentence)


def prose(markdown: str) -> str:
    """The page without code blocks and inline code."""
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL))


def visible_text(template: str) -> str:
    """What a template shows: without markup, scripts and expressions."""
    text = re.sub(r"<script.*?</script>|<style.*?</style>|\{#.*?#\}", " ", template, flags=re.DOTALL)
    shown = re.findall(r"(?:title|placeholder|aria-label|alt)=\"([^\"]*)\"", text)
    text = re.sub(r"<[^>]*>|\{%.*?%\}|\{\{.*?\}\}", " ", text, flags=re.DOTALL)
    return " ".join([text, *shown])


def descriptions(value: Any) -> Iterator[str]:
    """Every description and summary of an OpenAPI document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("description", "summary") and isinstance(inner, str):
                yield inner
            else:
                yield from descriptions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from descriptions(inner)


def command_help() -> Iterator[tuple[str, str]]:
    """Every command of the program with its help and that of its options."""
    from bench.documents.reference.command_line import sorted_commands

    for name, command in sorted_commands():
        texts = [command.help or "", *(parameter.help or "" for parameter in command.params)]
        yield f"bln-search {name} --help", "\n".join(texts)


def texts() -> Iterator[tuple[str, str]]:
    """Every text that is checked for its wording, with its place."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        yield str(page.relative_to(ROOT)), prose(page.read_text(encoding="utf-8"))
    for template in sorted((ROOT / "service" / "templates").rglob("*.html")):
        yield str(template.relative_to(ROOT)), visible_text(template.read_text(encoding="utf-8"))
    document = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    yield "openapi.json", "\n".join(descriptions(document))
    yield from command_help()


def problems() -> list[Problem]:
    """Every problem of every text."""
    found = [problem for place, text in texts() for problem in find_unclear_wording(place, text)]
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name not in RESULT_PAGES:
            found += find_long_sentences(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Print every problem; exit code 1 if there is one."""
    found = problems()
    for problem in found:
        print(problem)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
