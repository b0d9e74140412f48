"""Style sheets and scripts."""

from __future__ import annotations


def test_static_files_are_cached_only_with_their_version(world, root):
    for path in ("service.css", "study.js", "plotly.js"):
        assert "immutable" in root.get(f"/static/{path}?v=1").headers["cache-control"]
        assert root.get(f"/static/{path}").headers["cache-control"] == "no-cache"
    assert root.get("/static/plotly.js", headers={"Accept-Encoding": "identity"}).text.startswith("/**")
    assert root.get("/static/study.js").headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in root.get("/static/icon.svg").headers["content-security-policy"]
    assert root.get("/static/../app.py").status_code == 404
    assert "immutable" not in root.get("/static/none.js?v=1").headers["cache-control"]
