"""Screenshots of every page in every state: `python -m tests.end_to_end.pages.screenshots FOLDER [--axe] [WORD]...`.

For three windows (1440 and 390 pixels wide, and 1440 at a zoom of 200 %), light and dark. The folder also receives
contact sheets, and `report.txt` with pages that are wider than their window, text that is cut off, messages in the
console, and what axe finds. Words select pages whose name contains one of them.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image

from bench.support.heartbeats import sending_heartbeats
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.end_to_end.browser import chromium
from tests.end_to_end.pages.page_states import ACCOUNT, create_studies
from tests.end_to_end.service import Service
from tests.support.service_world import RUNNER

WINDOWS = {
    "wide": {"viewport": {"width": 1440, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "zoom": {"viewport": {"width": 720, "height": 450}},
}
SCHEMES = ("light", "dark")
OF_STUDY = ("", "/leaderboard", "/charts", "/trials", "/share")
CUT = """() => [...document.querySelectorAll('main *, header *')].filter((one) => {
  const style = getComputedStyle(one);
  return ['hidden', 'clip'].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 1
    && one.innerText?.trim() && !one.title && !one.closest('.plot, .hidden, .skip');
}).map((one) => one.outerHTML.slice(0, 120))"""
SHEET_COLUMNS, THUMBNAIL_WIDTH, THUMBNAIL_HEIGHT = 6, 480, 900


def list_pages(studies):
    """Path of every page by its name."""
    number = studies["complete"]
    pages = {
        "list": "/studies",
        "list-filtered": "/studies?state=failed",
        "list-none": "/studies?text=nothing-like-it",
        "new": "/studies/new",
        "compare-none": "/compare",
        "compare": f"/compare?study={number}&study={studies['several-sizes']}",
        "configurations": "/configurations",
        "tokens": "/tokens",
        "settings": "/settings",
        "missing": "/studies/999999",
        "missing-path": "/nothing",
        "invalid-query": f"/studies/{number}/leaderboard?sort=nothing",
        "signed-out": "/?next=/studies",
        "documentation": "/docs/index.html",
        "glossary": "/docs/glossary.html",
        "fine-tune": f"/studies/{number}/fine-tune?arm=bln&configuration=FFFF",
        "repeat": f"/studies/{number}/repeat?seeds=2",
        "configuration": f"/studies/{number}/configurations/TTFF",
        "layers": f"/studies/{studies['per-layer']}/layers",
        "streams": f"/studies/{studies['streams']}/streams",
        "leaderboard-filtered": f"/studies/{studies['several-sizes']}/leaderboard?deterministic=true&columns=cost",
        "leaderboard-empty": f"/studies/{studies['several-sizes']}/leaderboard?state=diverged",
    }
    for state, study_id in studies.items():
        pages |= {f"{state}{path.replace('/', '-') or '-overview'}": f"/studies/{study_id}{path}" for path in OF_STUDY}
    return pages


STEPS = {
    "keys": ("/studies", ("#keys-open",)),
    "selection": ("/studies", ("tbody input[type=checkbox] >> nth=0", "tbody input[type=checkbox] >> nth=1")),
    "columns": ("/studies/{conditions}/leaderboard", (".menu summary",)),
    "difference": (
        "/studies/{conditions}/leaderboard",
        (".board tbody:last-child input >> nth=0", ".board tbody:last-child input >> nth=2"),
    ),
    "edit": ("/studies/{complete}", (".edit >> nth=0", ".edit >> nth=1", ".edit >> nth=2")),
    "delete": ("/studies/{cancelled}", ("[data-action=delete] >> visible=true",)),
    "cancel": ("/studies/{running}", ("[data-action=cancel] >> visible=true",)),
    "statistics": ("/studies/{several-sizes}/leaderboard", (".words summary",)),
}
"""Path of a page and what is clicked on it, by name."""


def list_shared(ledger, studies):
    """Path of the pages of visitors with a share link: valid, ended, unknown; and of the sign-in page."""
    expires = {"shared": datetime.now(UTC) + timedelta(days=7), "shared-ended": datetime.now(UTC) - timedelta(days=1)}
    paths = {
        name: f"/shared/{ledger.share_links.create_link(studies['conditions'], ACCOUNT, 'reviewers', until)[0]}"
        for name, until in expires.items()
    }
    study = f"/studies/{studies['conditions']}"
    return {
        "sign-in": "/",
        "sign-in-needed": "/studies",
        "shared-unknown": "/shared/nothing",
        "shared": paths["shared"],
        "shared-leaderboard": f"{study}/leaderboard",
        "shared-charts": f"{study}/charts",
        "shared-ended": paths["shared-ended"],
    }


def list_steps(studies):
    """Path and clicks of every page that changes under clicks, by name."""
    return {name: (path.format(**studies), clicks) for name, (path, clicks) in STEPS.items()}


def without_clicks(pages):
    return {name: (path, ()) for name, path in pages.items()}


def list_trials(ledger, studies):
    """Path of the page of a trial of some studies, by name."""
    return {
        f"trial-{state}-{trial.id}": f"/studies/{studies[state]}/trials/{trial.id}"
        for state in ("running", "failed", "complete")
        for trial in ledger.trials.list_trials(studies[state])
    }


class Photographer:
    """Visits pages in one window and color scheme, and reports what is wrong with them."""

    def __init__(self, browser, service, folder, window, scheme, *, axe, visitor=False):
        self.folder, self.name, self.axe = folder, f"{window}-{scheme}", axe
        self.service, self.report, self.files = service, [], []
        self.context = browser.new_context(color_scheme=scheme, **WINDOWS[window])
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.report.append(f"{self.name}: error: {error}"))
        self.page.set_default_timeout(20_000)
        if not visitor:
            self.page.goto(f"{service.address}/#token={service.token}")
            self.page.wait_for_url("**/studies")

    def take(self, name, path, clicks=()):
        """Store a screenshot of the whole page, after some clicks."""
        self.page.goto(self.service.address + path)
        try:
            self.page.wait_for_load_state("networkidle", timeout=4000)
        except Exception:  # noqa: BLE001 - a live page has an open stream
            self.page.wait_for_timeout(200)
        for chart in self.page.locator(".chart").all():  # charts are drawn when they come into view
            chart.scroll_into_view_if_needed()
            self.page.wait_for_timeout(300)
        for selector in clicks:
            self.page.click(selector)
            self.page.wait_for_timeout(200)
        self.page.evaluate("scrollTo(0, 0)")
        file = self.folder / f"{self.name}-{name}.png"
        self.page.screenshot(path=file, full_page=True)
        self.files.append(file)
        where = f"{self.name} {name}"
        width = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if width > 0:
            self.report.append(f"{where}: {width} pixels wider than the window")
        self.report += [f"{where}: cut: {element}" for element in self.page.evaluate(CUT)]
        if self.axe:
            self.report += [f"{where}: axe: {problem}" for problem in self._run_axe()]

    def _run_axe(self):
        from axe_playwright_python.sync_playwright import Axe

        violations = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {node['html'][:140]}" for one in violations for node in one["nodes"][:2]]

    def close(self):
        self.context.close()


def write_sheets(files, folder, name):
    """Store contact sheets of screenshots, each cut to the same height."""
    per_sheet = SHEET_COLUMNS * 2
    for number, start in enumerate(range(0, len(files), per_sheet), start=1):
        sheet = Image.new("RGB", (SHEET_COLUMNS * THUMBNAIL_WIDTH, 2 * THUMBNAIL_HEIGHT), "gray")
        for place, file in enumerate(files[start : start + per_sheet]):
            picture = Image.open(file).convert("RGB")
            scale = (THUMBNAIL_WIDTH - 8) / picture.width
            picture = picture.resize((THUMBNAIL_WIDTH - 8, max(1, round(picture.height * scale))))
            picture = picture.crop((0, 0, picture.width, min(picture.height, THUMBNAIL_HEIGHT - 8)))
            row, column = divmod(place, SHEET_COLUMNS)
            sheet.paste(picture, (column * THUMBNAIL_WIDTH, row * THUMBNAIL_HEIGHT))
        sheet.save(folder / f"sheet-{name}-{number:02}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--axe", action="store_true")
    parser.add_argument("--windows", nargs="+", choices=WINDOWS, default=list(WINDOWS))
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    service = Service(options.folder.resolve() / "home", "--no-worker").start()
    report = []
    try:
        with chromium() as browser:
            report += take_all(browser, service, options)
    finally:
        service.stop()
    (options.folder / "report.txt").write_text("\n".join(report) + "\n")
    print(f"{len(report)} findings in {options.folder / 'report.txt'}")


def take_all(browser, service, options):
    """Store all screenshots; return the findings, which are also printed when a window is done."""
    report, arrangements = [], [(window, scheme) for window in options.windows for scheme in options.schemes]

    def photograph(pages, *, visitor=False):
        for window, scheme in arrangements:
            photographer = Photographer(
                browser, service, options.folder, window, scheme, axe=options.axe, visitor=visitor
            )
            for name, (path, clicks) in pages.items():
                if not options.words or any(word in name for word in options.words):
                    photographer.take(name, path, clicks)
            photographer.close()
            write_sheets(photographer.files, options.folder, f"{photographer.name}-{len(pages)}")
            report.extend(photographer.report)
            print(*photographer.report, f"{photographer.name}: {len(photographer.files)} pages", sep="\n", flush=True)

    with closing(open_and_upgrade_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")) as ledger:
        if not ledger.studies.list_studies():
            photograph({"empty-list": ("/studies", ()), "empty-compare": ("/compare", ())})
            studies = create_studies(ledger)
        else:
            studies = {record.name: record.id for record in ledger.studies.list_studies()}
        with sending_heartbeats(ledger, RUNNER):
            photograph(list_steps(studies) | without_clicks(list_pages(studies) | list_trials(ledger, studies)))
            photograph(without_clicks(list_shared(ledger, studies)), visitor=True)
    return report


if __name__ == "__main__":
    main()
