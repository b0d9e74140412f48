"""A network is exported from the list of studies in two clicks, by a worker beside the web process."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import psutil
import pytest

from bln_search.specs import load_study
from tests.end_to_end.browser import Visit
from tests.end_to_end.service import Service, until
from tests.end_to_end.small_study import EXPORT_STUDY, wait_until_complete

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("export pages")]

COUNT_CLICKS = """
document.addEventListener("click", (event) => {
  if (event.isTrusted) {
    sessionStorage.setItem("clicks", 1 + Number(sessionStorage.getItem("clicks")));
  }
}, true);
"""
"""A script that counts activations by a person, by mouse or keyboard, over pages."""

WATCH_STATES = """() => {
  window.states = [];
  new MutationObserver(() => {
    const state = document.querySelector("#export [data-state]").dataset.state;
    if (window.states.at(-1) !== state) {
      window.states.push(state);
    }
  }).observe(document.getElementById("export"), { childList: true, subtree: true });
}"""
FILES = ["README.md", "configuration.json", "model.onnx", "model.pt2", "model.safetensors", "parity.json"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with its worker, and a complete study."""
    folder = tmp_path_factory.mktemp("service")
    started = Service(folder / "home", BLN_SEARCH_CACHE=str(folder / "cache")).start()
    with started.client() as client:
        (folder / "study.yaml").write_text(EXPORT_STUDY)
        study_id = client.submit(load_study(folder / "study.yaml"))["id"]
        wait_until_complete(client, study_id)
        until(lambda: client.analysis(study_id) is not None, 60)
    yield started
    started.stop()


@pytest.fixture
def counted(browser, service):
    """A browser at the list of studies that counts clicks and page loads from now on."""
    visit = Visit(browser, service).sign_in()
    visit.context.set_default_timeout(120_000)
    visit.page.add_init_script(COUNT_CLICKS)
    visit.go("/studies")
    visit.page.wait_for_selector(".studies .best a")
    visit.loads = []
    visit.page.on("load", lambda page: visit.loads.append(page.url))
    yield visit
    visit.close()


def clicks(visit):
    return int(visit.page.evaluate("sessionStorage.getItem('clicks')"))


def check_archive(path, files=FILES):
    with zipfile.ZipFile(path) as archive:
        assert [Path(name).name for name in archive.namelist()] == files
        names = {Path(name).name: name for name in archive.namelist()}
        assert json.loads(archive.read(names["parity.json"]))["largest_difference"] <= 1e-5


def test_two_clicks_from_the_list_download_a_network(counted, service):
    page = counted.page
    page.locator(".studies .best a").first.click()
    page.wait_for_selector("#export-form button")
    page.evaluate(WATCH_STATES)
    with page.expect_download() as download:
        page.get_by_role("button", name="Build and download").click()
    check_archive(download.value.path())
    assert download.value.suggested_filename.startswith("small-bln-")
    assert clicks(counted) == 2
    assert len(counted.loads) == 1
    assert counted.page.evaluate("window.states")[-1] == "ready"
    assert {"requested", "running"} & set(counted.page.evaluate("window.states"))
    maps = "\n".join(region.path for region in psutil.Process(service.process.pid).memory_maps())
    assert "libpython" in maps or "python" in maps
    assert "torch" not in maps


def press_until(page, selector, limit=300):
    """Tab to an element."""
    for _ in range(limit):
        if page.evaluate(f"document.activeElement?.matches({json.dumps(selector)}) ?? false"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{selector} is not reached by Tab")


def test_keyboard_alone_downloads_a_network(counted):
    page = counted.page
    press_until(page, ".studies .best a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#export-form button")
    press_until(page, "#export-form button")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    check_archive(download.value.path())
    assert page.evaluate("document.activeElement.matches('#export-form button')")
    assert clicks(counted) == 2
    assert len(counted.loads) == 1


def test_progress_is_resumed_after_a_reload_and_nothing_is_downloaded_twice(browser, service):
    visit = Visit(browser, service).sign_in()
    with service.client() as client:
        study = client.study("small")
        best = client.leaderboard(study["id"]).best_row
        row = {"configuration": str(best.configuration), "arm": best.arm, "batch_size": best.batch_size}
        export = client.exports.request(study["id"], **row, estimate=best.estimate, format="safetensors")
        downloads = []
        visit.page.on("download", lambda download: downloads.append(download))  # noqa: PLW0108 - marked by Playwright
        estimate = f"&estimate={best.estimate}" if best.estimate else ""
        visit.go(f"/studies/{study['id']}/configurations/{best.configuration}?batch_size={best.batch_size}{estimate}")
        visit.page.wait_for_selector("#export [data-state=ready]", timeout=120_000)
        assert client.exports.get(study["id"], export["id"])["state"] == "ready"
    visit.page.wait_for_timeout(500)
    assert downloads == []
    visit.close()


def test_worker_killed_in_an_export_loses_nothing(tmp_path, service):
    """The worker and all its processes are killed while it builds; the service starts another, which builds it."""
    with service.client() as client:
        study_id = client.study("small")["id"]
        export = client.exports.request(study_id, configuration="best", format="onnx", seed=1)
        until(lambda: client.exports.get(study_id, export["id"])["state"] == "running", 60)
        killed = service.descendants()
        for process in killed:
            if process.is_running():
                process.kill()
        psutil.wait_procs(killed, 10)
        ready = client.exports.wait(study_id, export["id"], timeout=240)
        archive = client.exports.download(ready, tmp_path / "network.zip")
        check_archive(archive, ["README.md", "configuration.json", "model.onnx", "parity.json"])
        events = [event for event in client.list_events(study_id) if event["kind"].startswith("export_")]
    assert [event["kind"] for event in events if event["data"]["export"] == export["id"]] == [
        "export_requested",
        "export_ready",
    ]
