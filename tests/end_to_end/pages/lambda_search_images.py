"""Pictures of a search over schedules in the web pages: `python -m tests.end_to_end.pages.lambda_search_images`.

Runs `mbn_lambda_search_mnist`, then random search with as many epochs, in a service of its own whose worker trains on
Ray Tune, in about ten minutes. Needs MNIST in BLN_SEARCH_DATA. Writes `lambda_search_running.png` half-way,
`lambda_search_charts.png` and `lambda_search_compare.png`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.lambda_search import STUDY, make_search_study
from bln_search.specs import load_study
from tests.end_to_end.browser import chromium
from tests.end_to_end.pages.docs_images import IMAGES, WIDTH, store_image, take
from tests.end_to_end.service import OneByOne, until

PATIENCE = 1800
"""Seconds for a study."""


class OneByOneOnRay(OneByOne):
    """With a worker that trains on Ray Tune."""

    worker_options = ("--workers", 1, "--executor", "ray")


def submit(client, study):
    return client.submit(study.model_dump(mode="json", exclude_defaults=True))["id"]


def take_charts(page, address, selector, name):
    """Store a part of a page whose charts are drawn."""
    page.set_viewport_size({"width": WIDTH, "height": 1000})
    page.goto(address)
    part = page.locator(selector).first
    for chart in part.locator(".chart").all() or [part]:
        chart.scroll_into_view_if_needed()
        chart.locator(".js-plotly-plot .main-svg").first.wait_for()
    page.wait_for_timeout(1000)
    part.screenshot(path=IMAGES / f"{name}.png")
    store_image(name)


def take_all(service, page):
    """Run both searches and store the pictures."""
    client, study = service.client(), load_study(STUDY)
    studies = f"{service.address}/studies"
    tpe = submit(client, make_search_study(study, 0))
    until(lambda: client.study(tpe)["progress"]["ended"] >= study.search.trials // 2, PATIENCE)
    take(page, f"{studies}/{tpe}", "lambda_search_running", 1000)
    until(lambda: client.analysis(tpe) is not None, PATIENCE)
    take_charts(page, f"{studies}/{tpe}/charts", "section:has(> h2#search)", "lambda_search_charts")
    epochs = study.search.trials * study.search.min_epochs * 4 // 3
    random = submit(client, make_search_study(study, 0, epochs))
    until(lambda: client.study(random)["state"] == "complete", PATIENCE)
    compared = f"{service.address}/compare?study={tpe}&study={random}"
    take_charts(page, compared, ".chart[data-name=search]", "lambda_search_compare")


def main():
    with tempfile.TemporaryDirectory() as folder:
        service = OneByOneOnRay(Path(folder) / "home").start().ready()
        try:
            with chromium() as browser:
                page = browser.new_page(color_scheme="light")
                page.set_default_timeout(1000 * PATIENCE)
                page.goto(f"{service.address}/#token={service.token}")
                page.wait_for_url("**/studies")
                take_all(service, page)
        finally:
            service.stop()


if __name__ == "__main__":
    main()
