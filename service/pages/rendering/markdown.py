"""Notes of studies: Markdown, rendered to HTML that cannot run scripts or load anything."""

from __future__ import annotations

from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

_TAGS = frozenset(
    {"a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong"}
    | {"table", "tbody", "td", "th", "thead", "tr", "ul"}
)
"""Elements of rendered notes. Images are left out: the policy of the pages forbids to load them from other hosts."""

_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}
_HEADING_SHIFT = 2
"""Levels by which headings are lowered: the notes are below a heading of level 2 of the page."""


@lru_cache(maxsize=1)
def _make_markdown_parser() -> MarkdownIt:
    """CommonMark with tables; HTML in the notes is text."""
    return MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])


def render_markdown(text: str) -> Markup:
    """Return Markdown as sanitized HTML."""
    parser = _make_markdown_parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + _HEADING_SHIFT)}"
    html = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(
        html, tags=set(_TAGS), attributes=_ATTRIBUTES, url_schemes=_SCHEMES, link_rel="noopener noreferrer nofollow"
    )
    return Markup(clean)  # noqa: S704 - sanitized by nh3
