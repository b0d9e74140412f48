"""Hook of mkdocs: reference pages are generated from the program whenever the pages are built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.documents.reference.pages import render


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with its generated parts."""
    return render(page.file.src_uri, markdown)
