"""Generated blocks of the pages: `python -m bench.documents.blocks --write` writes them, from bench/results.

The text between `<!-- BLOCK -->` and `<!-- /BLOCK -->` of docs/PAGE.md, or of README.md, is that of the template
`templates/PAGE/BLOCK.md`, in Jinja. Formats of figures are filters (`bench.documents.formats`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.documents.formats import FILTERS
from bench.documents.functions import FUNCTIONS
from bench.support.reporting import load_result
from papers.experiments import configuration_cells
from papers.experiments.bln import EXPERIMENTS
from papers.experiments.claims import read_paper
from papers.experiments.planned_seeds import MOST_SEEDS, seeds_for_power
from papers.experiments.values import by_position, epoch, lowest

ROOT = Path(__file__).parents[2]
TEMPLATES = Path(__file__).parent / "templates"
FIGURES = Path(__file__).parent / "figures.yaml"
"""Texts of the rows of the table of benchmarks; their variables are the values of a file of bench/results."""


@dataclass(frozen=True)
class Block:
    """A generated part of a page.

    Attributes:
        page: Name of the page without `.md`.
        name: Name in its markers.
    """

    page: str
    name: str

    @property
    def file(self) -> Path:
        """The page."""
        return ROOT / f"{self.page}.md" if self.page == "README" else ROOT / "docs" / f"{self.page}.md"

    def render(self) -> str:
        """Return the text, from bench/results."""
        return template_environment().get_template(f"{self.page}/{self.name}.md").render().strip() + "\n"

    def read(self) -> str:
        """Return the text on the page."""
        return self._split()[1]

    def write(self) -> None:
        """Replace the text on the page."""
        before, _, after = self._split()
        self.file.write_text(before + self.render() + after, encoding="utf-8")

    def _split(self) -> tuple[str, str, str]:
        """Return the page up to the opening marker, the block, and the page from the closing marker on."""
        opening, closing = f"<!-- {self.name} -->\n", f"<!-- /{self.name} -->"
        text = self.file.read_text(encoding="utf-8")
        if (text.count(opening), text.count(closing)) != (1, 1):
            raise ValueError(f"{self.file} needs the lines <!-- {self.name} --> and <!-- /{self.name} --> once each")
        before, _, rest = text.partition(opening)
        block, _, after = rest.partition(closing)
        return before + opening, block, closing + after


def blocks(page: str = "*") -> list[Block]:
    """Return the blocks of a page, of all pages by default.

    Raises:
        ValueError: The page has none.
    """
    paths = sorted(TEMPLATES.glob(f"{page}/*.md"))
    if not paths:
        names = sorted({path.parent.name for path in TEMPLATES.glob("*/*.md")})
        raise ValueError(f"no generated block is on the page {page}; the pages are {', '.join(names)}")
    return [Block(path.parent.name, path.stem) for path in paths]


@dataclass(frozen=True)
class BenchmarkFigure:
    """A row of the table.

    Attributes:
        what: Description of the measured value.
        value: The value.
        file: Name of the result file without `.json`.
        hardware: Hardware of the measurement.
    """

    what: str
    value: str
    file: str
    hardware: str


def benchmark_figures(environment: Environment, *, is_readme: bool) -> Iterator[BenchmarkFigure]:
    """Yield the rows of docs/figures.md, or those of the README."""
    for entry in yaml.safe_load(FIGURES.read_text(encoding="utf-8")):
        if unknown := entry.keys() - {"file", "what", "figure", "readme", "each"}:
            raise ValueError(f"{FIGURES.name} has the unknown key {', '.join(sorted(unknown))}")
        what = entry.get("readme") if is_readme else entry["what"]
        if what is None:
            continue
        document = load_result(entry["file"])
        values: dict[str, Any] = {**document["result"], "provenance": document["provenance"]}
        items: Any = environment.compile_expression(entry["each"])(**values) if "each" in entry else [None]
        for item in items:
            texts = [environment.from_string(text).render(values, item=item) for text in (what, entry["figure"])]
            yield BenchmarkFigure(texts[0], texts[1], entry["file"], document["provenance"]["hardware"])


@cache
def template_environment() -> Environment:
    """Return the environment of the templates, with their filters and functions."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.do"],
    )
    environment.filters.update(FILTERS)
    environment.filters["by_position"] = by_position
    environment.globals.update(FUNCTIONS)
    environment.globals["paper"] = cache(read_paper)
    environment.globals["experiments"] = EXPERIMENTS
    environment.globals["configuration_cells"] = configuration_cells
    environment.globals.update(seeds_for_power=seeds_for_power, most_seeds=MOST_SEEDS)
    environment.globals.update(by_position=by_position, epoch=epoch, lowest=lowest)
    environment.tests["prefixed"] = str.startswith
    environment.globals["benchmark_figures"] = lambda is_readme: benchmark_figures(environment, is_readme=is_readme)
    return environment


def main() -> None:
    """Print the blocks, or write them into their pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=["*"], help="names of pages; all by default")
    parser.add_argument("--write", action="store_true", help="write the blocks into the pages")
    options = parser.parse_args()
    for page in options.pages:
        for block in blocks(page):
            if options.write:
                block.write()
            else:
                print(block.render())


if __name__ == "__main__":
    main()
