"""Notes are rendered as Markdown that can neither run a script nor load anything."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from service.pages.rendering.markdown import render_markdown
from tests.support.service_world import HTML_HEADERS


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b** `c`", "<p>a <strong>b</strong> <code>c</code></p>"),
        ("# T\n##### U", "<h3>T</h3>\n<h6>U</h6>"),
        ("- x\n- y", "<ul>\n<li>x</li>\n<li>y</li>\n</ul>"),
        ("a\nb", "<p>a<br>\nb</p>"),
        (
            "[x](https://example.org)",
            '<p><a href="https://example.org" rel="noopener noreferrer nofollow">x</a></p>',
        ),
        ("| a |\n|---|\n| 1 |", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n"),
    ],
)
def test_markdown_is_rendered_below_headings_of_the_page(text, html):
    assert html in str(render_markdown(text))


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![y](https://example.org/z.png)",
        "<a href='https://x' onclick='alert(1)'>x</a>",
        "<iframe src=//example.org></iframe>",
        "[x](https://example.org 'a\" onmouseover=\"alert(1)')",
        '```x" onload="alert(1)\n<b>\n```',
    ],
)
def test_no_script_and_nothing_foreign_is_rendered(text):
    from html.parser import HTMLParser

    found = []

    class Elements(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.append((tag, dict(attrs)))

    Elements().feed(str(render_markdown(text)))
    for tag, attributes in found:
        assert tag in ("p", "a", "pre", "code")
        assert set(attributes) <= {"href", "rel", "title"}
        assert attributes.get("href", "https:").startswith("https:")


def test_page_and_fragment_show_the_notes(world):
    study_id = world.complete()
    world.queue.update_study_metadata(study_id, {"notes": "**strong** <i>text</i>", "title": "a <b>", "tags": ["x"]})
    root = world.client("root", Scope.ADMIN, **HTML_HEADERS)
    for path in (f"/studies/{study_id}", f"/studies/{study_id}/parts/details"):
        text = root.get(path).text
        assert "<strong>strong</strong> &lt;i&gt;text&lt;/i&gt;" in text
        assert "a &lt;b&gt;" in text
        assert "<i>text" not in text
    assert world.client("bob").get(f"/studies/{study_id}/parts/details").status_code == 404
