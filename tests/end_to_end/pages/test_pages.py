"""The pages in a real browser, the service and its worker behind them."""

from __future__ import annotations

import re
import time

import pytest

from bln_search.client import Client
from bln_search.core.enums import Scope
from bln_search.storage.ledger import open_ledger
from tests.end_to_end.browser import WATCH_SHIFTS, Visit
from tests.end_to_end.service import Service, until
from tests.ranking.layers import per_layer_result

QUICK = """name: {name}
data: {{name: digits, fraction: 0.3}}
model: {{name: mlp, widths: [16]}}
arms: [{{method: bln}}, {{method: ln}}]
seeds: [0, 1]
training: {{epochs: {epochs}, batch_size: 25}}
"""
FOR_EVER = 20_000
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("pages") / "home"
    made = Service(home, BLN_SEARCH_CACHE=str(home / "cache")).start().ready()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def done(service):
    """Two studies with their results, analysed; of the first the networks look searched layer by layer, too."""
    with service.client() as client:
        numbers = [client.submit(spec(name, 3))["id"] for name in ("first", "second")]
        for number in numbers:
            until(lambda number=number: client.study(number)["state"] == "complete", 60)
            assert client.analysis(number, wait=60) is not None
        analysis = client.analysis(numbers[0]).model_copy(
            update={"layers": (per_layer_result(56), per_layer_result(4))}
        )
    ledger = open_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")
    ledger.analyses.save(numbers[0], ledger.analyses.count_results(numbers[0]), analysis)
    ledger.close()
    return numbers


def spec(name, epochs):
    import yaml

    return yaml.safe_load(QUICK.format(name=name, epochs=epochs))


def test_printed_link_signs_in_and_hides_the_token(browser, service):
    visit = Visit(browser, service)
    visit.sign_in()
    assert "token" not in visit.page.url
    cookies = visit.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert visit.page.evaluate("document.cookie") == ""
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.wait_for_selector("#sign-in:visible")
    visit.go("/studies")
    visit.page.wait_for_selector("#sign-in:visible")
    assert "next=%2Fstudies" in visit.page.url
    visit.page.fill("#token", service.token)
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.wait_for_url("**/studies")
    visit.close()


def test_a_wrong_token_is_told_and_nothing_else_happens(browser, service):
    visit = Visit(browser, service)
    visit.page.goto(f"{service.address}/#token=wrong")
    visit.page.wait_for_selector("#sign-in:visible")
    assert "unknown, revoked or expired" in visit.text("#state")
    visit.complaints = [
        complaint for complaint in visit.complaints if "401" not in complaint
    ]  # the browser's own line about the answer
    visit.close()


def test_study_is_submitted_and_followed_without_a_reload(visit):
    page = visit.page
    page.get_by_role("link", name="New study").first.click()
    page.wait_for_selector("#send:enabled")
    page.fill("input[name=name]", "from-the-form")
    page.fill("input[name=epochs]", "3")
    page.fill("input[name=fraction]", "0.3")
    page.get_by_role("checkbox", name="ln", exact=True).check()
    page.fill("input[name=seeds]", "0, 1")
    page.locator("input[name=seeds]").press("Tab")
    visit.until("document.getElementById('text').value.includes('method: ln')")
    visit.until("document.querySelector('#plan dd')?.textContent === '4'")
    assert "name: from-the-form" in page.input_value("#text")
    page.click("#send")
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    page.evaluate("window.sameDocument = true")
    page.wait_for_selector("#state .state-complete", timeout=240_000)
    page.wait_for_selector("#leading tbody tr:nth-child(8)")
    visit.until("document.querySelectorAll('#cells .state-finished').length >= 4")
    page.wait_for_selector("#answer .answer [data-certainty]", timeout=60_000)
    assert page.evaluate("window.sameDocument") is True
    assert " seed " in page.locator("#log li", has_text="trial finished").last.inner_text()
    assert visit.text("#live") == "ended"
    assert visit.text("#counts") == "4 of 4 trials, 0 running"
    assert "study complete" in page.locator("#log li").last.inner_text()
    page.locator(".chart").first.scroll_into_view_if_needed()
    page.wait_for_selector(".js-plotly-plot .scatterlayer path.js-line")


def test_form_change_during_a_check_is_kept_and_submitted(visit):
    held, page = [], visit.page
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    page.route("**/studies/new/check", lambda route: held.append(route))  # noqa: PLW0108 - marked by Playwright
    page.fill("input[name=fraction]", "0.3")
    page.locator("input[name=fraction]").press("Tab")
    wait(page, lambda: len(held) == 1)
    box = page.get_by_role("checkbox", name="ln", exact=True)
    box.check()
    held[0].continue_()
    wait(page, lambda: len(held) == 2)
    assert "fraction: 0.3" in page.input_value("#text")
    assert box.is_checked()
    assert page.locator("#send").is_disabled()
    held[1].continue_()
    page.wait_for_selector("#send:enabled")
    assert box.is_checked()
    assert "method: ln" in page.input_value("#text")


def test_conditions_and_blends_of_the_form_are_in_the_plan(visit):
    page, sent = visit.page, []
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    for name, value in (("conditions", "fog-3, contrast-5"), ("blends", "0.1, N16"), ("inference_sizes", "1, 4")):
        page.fill(f"input[name={name}]", value)
        page.locator(f"input[name={name}]").press("Tab")
        wait(page, lambda value=value: value in page.input_value("#text"))
    page.wait_for_selector("#send:enabled")
    page.route("**/api/v1/studies", lambda route: (sent.append(route.request.post_data_json), route.abort()))
    page.locator("#send").click()
    wait(page, lambda: len(sent) == 1)
    evaluation = sent[0]["evaluation"]
    assert [condition["name"] for condition in evaluation["conditions"]] == ["fog-3", "contrast-5"]
    assert (evaluation["blends"], evaluation["batch_sizes"]) == ([0.1, "N16"], [1, 4])
    visit.complaints = [complaint for complaint in visit.complaints if "ERR_FAILED" not in complaint]


def wait(page, happens):
    """While the browser goes on."""
    end = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < end
        page.wait_for_timeout(20)


@pytest.mark.parametrize(
    ("name", "start"), [("LaTeX", "% needs"), ("Markdown", "| rank |"), ("CSV", "rank,arm"), ("link", "http")]
)
def test_the_table_is_copied(visit, done, service, name, start):
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.address)
    visit.go(f"/studies/{done[0]}/leaderboard")
    visit.page.get_by_role("button", name=re.compile(f"Copy .*{name}")).click()
    visit.until("document.getElementById('copied').textContent === 'Copied.'")
    assert visit.page.evaluate("navigator.clipboard.readText()").startswith(start)


def test_a_row_leads_to_its_configuration_and_its_network(visit, done):
    page = visit.page
    visit.go(f"/studies/{done[0]}/leaderboard")
    page.locator(".board tbody th a").first.click()
    page.wait_for_selector("h2:has-text('What it means')")
    assert "apply_configuration" in visit.text("#use-network")
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("Download")).first.click()
    assert download.value.path().stat().st_size > 1000


def test_every_chart_is_drawn_or_explained_and_can_be_downloaded(visit, done):
    page = visit.page
    visit.go(f"/studies/{done[0]}/charts")
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
    visit.until("[...document.querySelectorAll('.chart .about')].every((one) => one.textContent.trim())")
    drawn = page.locator(".chart h3").all_inner_texts()
    page.locator("details.missing summary").click()
    assert page.locator("details.missing dt").all_inner_texts() == [
        "Ranks by evaluation setting",
        "Loss at other batch sizes",
        "Loss after other epochs",
        "Dependence on the mini-batch",
        "Parameter importance",
        "Points of the search",
        "Loss and inference time",
    ]
    visit.until(f"document.querySelectorAll('.js-plotly-plot').length === {len(drawn)}")
    first = page.locator(".chart[data-name=configurations]")
    with page.expect_download() as download:
        first.get_by_role("button", name="Picture").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as download:
        first.get_by_role("link", name="Data").click()
    assert len(download.value.path().read_text().splitlines()) == 17


def test_layers_are_drawn_and_scroll_in_their_own_boxes(visit, done):
    page = visit.page
    visit.go(f"/studies/{done[0]}")
    page.get_by_role("link", name="Per layer").click()
    page.wait_for_selector("h2:has-text('Best configurations')")
    assert "significantly better by 0.0120" in page.locator(".recommended").inner_text()
    page.locator(".chart").scroll_into_view_if_needed()
    page.wait_for_selector(".js-plotly-plot .heatmaplayer image")
    boxes = "[...document.querySelectorAll('.scroll.tall')]"
    assert page.evaluate(f"{boxes}.every((one) => one.offsetHeight < 800)")
    assert page.evaluate(f"{boxes}[0].scrollWidth > {boxes}[0].clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.select_option("select[name=result]", "1")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/layers?result=1")
    assert page.get_by_role("columnheader", name="norm3", exact=True).count() == 1
    assert page.get_by_role("columnheader", name="norm4", exact=True).count() == 0


def test_two_studies_are_compared(visit, done):
    page = visit.page
    visit.go("/studies")
    for number in done:
        page.locator(f"input[name=study][value='{number}']").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector("table tbody tr")
    assert page.locator(".shared tr").count() == 20
    assert "±" in page.locator(".shared tr").first.inner_text()
    page.locator(".chart[data-name=ranks]").scroll_into_view_if_needed()
    page.wait_for_selector(".js-plotly-plot .scatterlayer")


def test_a_running_study_is_cancelled_then_deleted(visit, service):
    with service.client() as client:
        number = client.submit(spec("endless", FOR_EVER))["id"]
    page = visit.page
    visit.go(f"/studies/{number}")
    page.wait_for_selector("#state .state-running", timeout=160_000)
    page.wait_for_selector("#log li:has-text('epoch')", timeout=160_000)
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert "a cancelled study can be resumed" in visit.text("#dialog-text")
    page.get_by_role("button", name="Cancel 1 study").click()
    page.wait_for_selector("#state .state-cancelled")
    assert page.get_by_role("button", name="Resume").is_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete 1 study").click()
    page.wait_for_url("**/studies")
    assert page.locator(f"tr[data-study='{number}']").count() == 0


def test_a_lost_connection_is_told_and_caught_up_with(browser, tmp_path):
    own = Service(tmp_path / "home").start().ready()
    port = own.address.rsplit(":", 1)[1]
    visit = Visit(browser, own).sign_in()
    with own.client() as client:
        number = client.submit(spec("long", 4000))["id"]
    page = visit.page
    visit.go(f"/studies/{number}")
    visit.until("document.getElementById('live').textContent === 'live'")
    page.wait_for_selector("#log li:has-text('epoch')", timeout=160_000)
    own.kill()
    visit.until("document.getElementById('live').textContent.includes('lost')")
    own.options = (*own.options, "--port", port)
    own.start()
    visit.until("document.getElementById('live').textContent === 'live'")
    with Client(own.address, own.token) as client:
        client.cancel(number)
    page.wait_for_selector("#state .state-cancelled", timeout=240_000)
    seen = page.evaluate("[...document.querySelectorAll('#log li')].map((one) => one.value)")
    assert seen == list(range(seen[0], seen[0] + len(seen))), "no event is missing, none is there twice"
    visit.complaints = [
        complaint for complaint in visit.complaints if "ERR_CONNECTION" not in complaint and "ERR_" not in complaint
    ]
    visit.close()
    own.stop()


def test_yaml_error_is_shown_beside_its_line(visit):
    page = visit.page
    visit.go("/studies/new")
    page.wait_for_selector("#send:enabled")
    page.fill("#text", QUICK.format(name="wrong", epochs=3).replace("seeds", "seed") + "training: {}\n")
    page.wait_for_selector(".mistakes")
    assert "the key `training` is repeated" in visit.text("#mistakes")
    assert visit.text("#lines .wrong").strip() == "▶ 7"
    page.fill("#text", QUICK.format(name="wrong", epochs=-3).replace("{name: digits", "{name: digit"))
    visit.until("document.querySelector('.mistakes')?.textContent.includes('epochs')")
    assert page.locator("#send").is_disabled()
    page.get_by_role("button", name="Line 6").click()
    assert "epochs" in page.evaluate("getSelection().toString()")


def test_a_study_of_somebody_else_is_not_there(browser, service, done):
    ledger = open_ledger(f"sqlite:///{service.home / 'ledger.sqlite3'}")
    secret, _ = ledger.tokens.create("eve", Scope.READ)
    ledger.close()
    visit = Visit(browser, service).sign_in(secret)
    assert "There is no study yet" in visit.text("main")
    for path in ("", "/leaderboard", "/charts", "/configurations/TTTT", "/parts/leading"):
        answer = visit.go(f"/studies/{done[0]}{path}")
        assert answer.status == 404
        assert "There is no study" in visit.text("main")
    assert visit.go("/settings").status == 403
    assert visit.go("/studies/new").status == 403
    assert visit.go(f"/compare?study={done[0]}&study={done[1]}").status == 404
    visit.complaints = [
        complaint for complaint in visit.complaints if "404" not in complaint and "403" not in complaint
    ]
    visit.close()


def test_a_token_is_made_shown_once_and_revoked(visit, service):
    page = visit.page
    page.on("dialog", lambda dialog: dialog.accept())
    visit.go("/tokens")
    page.fill("input[name=label]", "for a script")
    page.get_by_role("button", name="Make a token").click()
    page.wait_for_selector("#secret:visible")
    secret = visit.text("#secret").split()[-1]
    assert Client(service.address, secret).studies() is not None
    visit.go("/tokens")
    assert secret not in page.content()
    page.get_by_role("button", name="Revoke for a script").click()
    page.wait_for_selector("tr:has-text('for a script') td:has-text('revoked')")


PAGES = (
    *("/studies", "/studies/new", "/studies/{0}", "/studies/{0}/leaderboard", "/studies/{0}/charts"),
    *(
        "/studies/{0}/layers",
        "/studies/{0}/layers?result=1",
        "/studies/{0}/configurations/TTFF",
        "/compare",
        "/compare?study={0}&study={1}",
        "/configurations",
    ),
    *("/tokens", "/settings", "/studies/999999", "/"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(browser, service, done, scheme):
    from axe_playwright_python.sync_playwright import Axe

    visit = Visit(browser, service, color_scheme=scheme).sign_in()
    found = []
    for path in PAGES:
        visit.go(path.format(*done))
        visit.page.wait_for_load_state("networkidle")
        report = Axe().run(visit.page).response
        found += [
            (path, violation["id"], violation["nodes"][0]["html"][:120], violation["nodes"][0]["failureSummary"][:200])
            for violation in report["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
    assert found == []
    visit.complaints = [complaint for complaint in visit.complaints if "404" not in complaint]
    visit.close()


@pytest.mark.parametrize("width", [360, 1280, 3840])
def test_no_page_is_wider_than_the_window(browser, service, done, width):
    visit = Visit(browser, service).sign_in()
    visit.page.set_viewport_size({"width": width, "height": 900})
    wide = []
    for path in PAGES:
        visit.go(path.format(*done))
        visit.page.wait_for_load_state("networkidle")
        if visit.page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(path)
    assert wide == []
    visit.complaints = [complaint for complaint in visit.complaints if "404" not in complaint]
    visit.close()


def test_times_are_local_with_their_zone(browser, service, done):
    visit = Visit(browser, service, timezone_id="Asia/Kolkata", locale="en-GB").sign_in()
    visit.go(f"/studies/{done[0]}")
    shown = visit.page.locator(".card time")
    visit.until("document.querySelector('.card time').title")
    assert re.search(r"(GMT\+5:30|IST)$", shown.inner_text())
    assert shown.get_attribute("title").endswith("UTC")
    visit.close()


def test_nothing_moves_while_events_come_in(visit, service):
    with service.client() as client:
        number = client.submit(spec("moving", FOR_EVER))["id"]
        visit.go(f"/studies/{number}")
        page = visit.page
        page.evaluate(WATCH_SHIFTS)
        page.wait_for_selector("#log li:has-text('epoch')", timeout=160_000)
        time.sleep(4)
        client.cancel(number)
        page.wait_for_selector("#state .state-cancelled")
        assert page.evaluate("window.shift") < 0.02, page.evaluate("window.moved")
        visit.go("/studies")  # else the page asks for the last parts of a study that is no more
        client.delete(number)
