"""Figures in the sentences of pages, compared with bench/results: `python -m bench.documents.prose_figures [PAGE ...]`.

`prose/PAGE.yaml` explains every number in the text of docs/PAGE.md, from its first section on, outside generated blocks
and code. References (Table 1, Eq. 3, a year) and names (CIFAR-10) need no explanation. Keys of the file:

- `let`: definitions for the templates below, in Jinja
- `figures`: parts of sentences as templates; what they render must be on the page
- `unkept`: parts of sentences that no result file has, by the file of bench/results that will have it once the study
  is run again; the page says with which revision they were measured
- `others`: parts of sentences with other numbers: settings of a study, and what others published
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.documents.blocks import ROOT, template_environment
from bench.support.reporting import read_result

FOLDER = Path(__file__).parent / "prose"

_IGNORED = re.compile(
    r"`[^`]*`"  # code
    r"|\]\([^)]*\)|<!--.*?-->"  # targets of links, comments
    r"|(?:^|(?<= ))\d+\.(?= )|\*\*\d+(?: and \d+)*\.\*\*"  # numbers of headings and lists
    r"|(?i:\b(?:sections?|eqs?\.|equations?|tables?|figures?|figs?\.|algorithms?|steps?|claims?|chapters?|footnotes?|no\.|§)"
    r" ?\d+(?:\.\d+)*[a-z]?(?:(?:, | and | to |[-–])\d+(?:\.\d+)*[a-z]?)*)"
    r"|\b[A-Za-z][A-Za-z_]*-\d[\w-]*|\b[A-Za-z]\w*\d\w*"  # CIFAR-10, L2
    r"|(?<=[a-z] )(?:19|20)\d\d\b|(?<=al\. )\d{4}|\((?:19|20)\d\d\)"  # years
    r"|\b95 %"  # level of all intervals
)
_NUMBER = re.compile(r"(?<![\w.,])[-−+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")


@dataclass(frozen=True)
class Prose:
    """The text of a page in one line.

    Attributes:
        text: The text; parts that need no explanation are in it.
        lines: Number of the line of each character.
    """

    text: str
    lines: Sequence[int]

    @classmethod
    def read(cls, page: Path) -> Prose:
        """Read a page from its first section on, without generated blocks and code blocks."""
        text, lines = "", []
        for number, line in _prose_lines(page.read_text(encoding="utf-8")):
            part = " ".join(line.split()) + " "
            text += part
            lines += [number] * len(part)
        return cls(text, lines)

    def find(self, part: str) -> Iterator[tuple[int, int]]:
        """Yield the places of a part, which is not within a longer number."""
        words = " ".join(part.split())
        for match in re.finditer(rf"(?<![\d.]){re.escape(words)}(?!\d|\.\d)", self.text):
            yield match.span()

    def numbers(self) -> Iterator[tuple[int, int]]:
        """Yield the places of the numbers that need an explanation."""
        masked = _IGNORED.sub(lambda match: " " * len(match[0]), self.text)
        for match in _NUMBER.finditer(masked):
            yield match.span()


def check_page(page: Path, explanations: Path) -> list[str]:
    """Return the numbers of a page without an explanation, and the explanations that are not on the page."""
    document: dict[str, Any] = yaml.safe_load(explanations.read_text(encoding="utf-8"))
    if unknown := document.keys() - {"let", "figures", "unkept", "others"}:
        raise ValueError(f"{explanations.name} has the unknown key {', '.join(sorted(unknown))}")
    prose, covered, problems = Prose.read(page), set[int](), []
    parts = [(part, _render(document.get("let", ""), part)) for part in document.get("figures", ())]
    parts += [(part, part) for part in document.get("others", ())]
    for file, unkept in document.get("unkept", {}).items():
        parts += [(part, part) for part in unkept]
        if read_result(file) is not None:
            problems.append(f"{explanations.name}: {file}.json exists now: make templates of {unkept}")
    for template, part in parts:
        places = list(prose.find(part))
        if not places:
            problems.append(f"{page.name} does not say {part!r} ({template!r} of {explanations.name})")
        covered.update(place for span in places for place in range(*span))
    problems += [
        f"{page.name}:{prose.lines[start]}: {explanations.name} does not explain {prose.text[start:end]} in "
        f"{prose.text[max(0, start - 40) : end + 20]!r}"
        for start, end in prose.numbers()
        if not covered.issuperset(range(start, end))
    ]
    return problems


def _render(definitions: str, template: str) -> str:
    return template_environment().from_string(definitions + template).render().strip()


def _prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines from the first section on, outside generated blocks and code blocks, with their numbers."""
    is_section, block, is_code = False, "", False
    for number, line in enumerate(text.splitlines(), start=1):
        if opening := re.fullmatch(r"<!-- (\w+) -->", line):
            block = opening[1]
        elif block:
            block = "" if line == f"<!-- /{block} -->" else block
        elif line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            is_section = is_section or line.startswith("## ")
            if is_section:
                yield number, line


def main() -> int:
    """Print what is wrong; the status is 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="names of pages; by default all in the folder prose")
    pages = parser.parse_args().pages or sorted(path.stem for path in FOLDER.glob("*.yaml"))
    problems = [
        problem for page in pages for problem in check_page(ROOT / "docs" / f"{page}.md", FOLDER / f"{page}.yaml")
    ]
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
