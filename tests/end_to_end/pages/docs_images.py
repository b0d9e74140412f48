"""Pictures of the web pages in docs/images: `python -m tests.end_to_end.pages.docs_images`.

Runs two studies of the handwritten digits in a service of its own, which takes a few minutes, and writes
`leaderboard.png`, `charts.png`, `study.png` and `compare.png`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from bln_search.specs import load_study
from tests.end_to_end.browser import chromium
from tests.end_to_end.service import Service, until

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
WIDTH = 1280
PATIENCE = 900
"""Seconds for a study."""

SECTIONS = {
    "arms": [{"method": "bln"}, {"method": "bn"}, {"method": "ln"}],
    "seeds": [0, 1, 2, 3, 4],
    "evaluation": {"population": ["frozen", "epoch"], "batch_sizes": [5, 25, 100]},
}
BATCH_SIZES = {"digits_b25": 25, "digits_b10": 10}
"""Mini-batch size of training by name of the study."""


def make_study(name):
    """The quickstart study with three methods, five seeds, two population estimates and three batch sizes."""
    quickstart = load_study(ROOT / "studies" / "quickstart.yaml").model_dump(mode="json", exclude_defaults=True)
    size = BATCH_SIZES[name]
    training = {**quickstart["training"], "batch_size": size}
    return {**quickstart, **SECTIONS, "name": name, "title": f"Digits, MLP, batch size {size}", "training": training}


def submit(client, name):
    return client.submit(make_study(name))["id"]


def num_ended(client, study_id):
    return client.study(study_id)["progress"]["ended"]


def take(page, address, name, height):
    """Store the upper part of a page as an image of 256 colors."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(address)
    page.wait_for_timeout(1000)
    for chart in page.locator(".chart").all():  # charts are drawn when they come into view
        chart.scroll_into_view_if_needed()
        chart.locator(".js-plotly-plot .main-svg").first.wait_for()
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / f"{name}.png")
    store_image(name)


def store_image(name):
    """Reduce an image to 256 colors."""
    file = IMAGES / f"{name}.png"
    Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB", flush=True)


def take_all(service, page):
    """Run both studies and store the pictures; that of a study while it runs."""
    client = service.client()
    first, second = (submit(client, name) for name in BATCH_SIZES)
    studies = f"{service.address}/studies"
    until(lambda: client.study(first)["state"] == "complete", PATIENCE)
    until(lambda: num_ended(client, second) > 0, PATIENCE)
    take(page, f"{studies}/{second}", "study", 1300)
    until(lambda: client.study(second)["state"] == "complete", PATIENCE)
    until(lambda: all(client.analysis(study_id) is not None for study_id in (first, second)), PATIENCE)
    take(page, f"{studies}/{first}/leaderboard", "leaderboard", 1000)
    take(page, f"{studies}/{first}/charts", "charts", 1400)
    take(page, f"{service.address}/compare?study={first}&study={second}", "compare", 1150)


def main():
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "home").start().ready()
        try:
            with chromium() as browser:
                page = browser.new_page(color_scheme="light")
                page.goto(f"{service.address}/#token={service.token}")
                page.wait_for_url("**/studies")
                take_all(service, page)
        finally:
            service.stop()


if __name__ == "__main__":
    main()
