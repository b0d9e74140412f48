"""Hook of mkdocs: reference pages are generated from the program whenever the pages are built."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.documents.reference.pages import render


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with its generated parts."""
    text = render(page.file.src_uri, markdown)
    return add_anchors(text) if page.file.src_uri == "glossary.md" else text


def add_anchors(glossary: str) -> str:
    """Return the glossary with an anchor at each term, to which the web pages link."""
    known: set[str] = set()

    def with_anchor(match: re.Match[str]) -> str:
        anchor = re.sub(r"[^a-z0-9]+", "-", match[1].lower()).strip("-")
        is_first = anchor not in known
        known.add(anchor)
        return f"**{match[1]}**{{ #{anchor} }}" if is_first else match[0]

    return re.sub(r"^\*\*([^*\n]+)\*\*", with_anchor, glossary, flags=re.MULTILINE)
