"""Text between two markers of a page, which a program writes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def write_block(page: Path, name: str, text: str) -> None:
    """Replace the text between the comments `<!-- NAME -->` and `<!-- /NAME -->` of a page."""
    before, _, after = _split(page, name)
    page.write_text(before + text + after, encoding="utf-8")


def read_block(page: Path, name: str) -> str:
    """Return the text between the comments `<!-- NAME -->` and `<!-- /NAME -->` of a page."""
    return _split(page, name)[1]


def run_block_command(
    description: str | None,
    page: Path,
    name: str,
    block: Callable[[], str],
    draw_pictures: Callable[[], None] | None = None,
) -> None:
    """Print a block, or write it into its page with `--write` and draw its pictures."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help="write the block into the page")
    if parser.parse_args().write:
        write_block(page, name, block())
        if draw_pictures is not None:
            draw_pictures()
    else:
        print(block())


def _split(page: Path, name: str) -> tuple[str, str, str]:
    """Return the text before the block with its marker, the block, and the end marker with the text after it."""
    opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.read_text(encoding="utf-8").split(opening)
    block, after = rest.split(closing)
    return before + opening, block, closing + after
