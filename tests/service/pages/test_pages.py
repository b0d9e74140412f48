"""The HTML pages: content, access and invalid input."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from bln_search.core.enums import Scope
from bln_search.storage.engine import write_session
from bln_search.storage.events import EventRepository
from bln_search.storage.tables import StudyRow
from bln_search.worker.analysis import compute_analysis
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import HTML_HEADERS, RUNNER, finish_trial, start_study, study

PAGES = (
    "/studies",
    "/studies/new",
    "/compare",
    "/configurations",
    "/configurations?method=none",
    "/tokens",
    "/settings",
)


@pytest.fixture
def root(world):
    return world.client("root", Scope.ADMIN, **HTML_HEADERS)


def test_every_page_is_rendered_for_an_admin(world, root):
    number = world.complete()
    other_id = world.complete("other")
    of_study = (
        "",
        "/leaderboard",
        "/charts",
        "/configurations/TTFF",
        "/parts/leading",
        "/parts/cells",
        "/parts/answer",
        "/parts/details",
        "/repeat",
        "/fine-tune?arm=bln&configuration=TTFF",
        "/study.yaml",
    )
    compared = (f"/compare?study={number}&study={other_id}", f"/studies/best?study={number}&study={other_id}")
    for path in (*PAGES, *compared, *(f"/studies/{number}{part}" for part in of_study)):
        response = root.get(path)
        assert response.status_code == 200, path
        assert response.headers["content-type"].startswith(("text/html", "application/yaml"))
    for name in ("curves", "configurations", "switches", "layers", "ranks", "importance", "points", "front"):
        chart = root.get(f"/studies/{number}/charts/{name}.json")
        assert chart.status_code == 200
        assert chart.json()["about"]
        expected = 200 if chart.json()["figure"] else 404
        assert root.get(f"/studies/{number}/charts/{name}.csv").status_code == expected
    assert root.get(f"/compare/ranks.json?study={number}&study={other_id}").json()["figure"]


def test_sign_in_redirects_to_the_requested_page(world):
    anonymous = world.client(None, **HTML_HEADERS)
    response = anonymous.get("/studies/3/leaderboard?sort=test_loss", follow_redirects=False)
    assert response.status_code == 303
    assert response.headers["location"] == "/?next=%2Fstudies%2F3%2Fleaderboard%3Fsort%3Dtest_loss"
    assert anonymous.get("/signed-in").json() is False
    assert anonymous.get("/api/v1/studies", headers=HTML_HEADERS).status_code == 401


def test_invalid_address_has_an_error_page(world, root):
    number = world.complete()
    for path, status in (
        ("/studies/77", 404),
        ("/nowhere", 404),
        (f"/studies/{number}/configurations/XXXX", 404),
        (f"/studies/{number}/configurations/TT--", 404),
        (f"/studies/{number}/charts/nothing.json", 404),
        (f"/studies/{number}/leaderboard?sort=secret", 422),
        (f"/studies/{number}/leaderboard?page=0", 422),
        ("/studies?sort=;drop", 422),
        ("/compare/ranks.json", 422),
        ("/compare/ranks.csv", 422),
        (f"/compare?study={number}&study={2**40}", 404),
        (f"/studies/{number}/leaderboard?batch_size=99999999", 422),
    ):
        response = root.get(path)
        assert response.status_code == status, path
        assert response.headers["content-type"].startswith("text/html"), path
        assert "List of studies" in response.text


def test_invalid_parameters_find_no_study(world, root):
    number = world.complete()
    assert "done" in root.get("/studies?text=done&state=&tag=&sort=-created").text
    assert "No study fits" in root.get("/studies?text=%00&tag=%00").text
    for path in (f"/studies/best?study={2**63}&study=0&study=-1", f"/studies/{number}/charts?setting=999"):
        assert root.get(path).status_code == 200


def test_errors_are_json_for_clients_without_html(world):
    response = world.client().get("/studies/77")
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "{{ 7 * 7 }}"])
def test_text_of_users_is_escaped(world, root, text):
    number = world.complete()
    with write_session(world.ledger.database.engine) as session:
        session.execute(update(StudyRow).where(StudyRow.id == number).values(notes=text, title=text, reason=text))
    for path in ("/studies", f"/studies/{number}", f"/studies?text={text}"):
        response = root.get(path)
        assert "<script>alert" not in response.text
        assert "<img src=x" not in response.text
        assert ">49<" not in response.text
    common_policy = "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    assert root.get("/studies").headers["content-security-policy"] == f"default-src 'self'; {common_policy}"
    chart_policy = f"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; {common_policy}"
    assert root.get(f"/studies/{number}").headers["content-security-policy"] == chart_policy


def test_undefined_rows_show_reasons_and_measured_rows_intervals(world, root):
    number = world.complete()
    text = root.get(f"/studies/{number}/leaderboard").text
    assert "undefined: Std_B: it has no value" in text
    assert text.count(" ± ") >= 45  # seeds that agree have none
    assert "16 of 16 rows" in text
    one_seed_id = world.complete("single", seeds=(0,))
    assert (
        "With one seed neither confidence intervals nor significance are known"
        in root.get(f"/studies/{one_seed_id}/leaderboard").text
    )


def test_filters_of_the_leaderboard_stay_in_its_links(world, root):
    number = world.complete()
    text = root.get(f"/studies/{number}/leaderboard?state=measured&sort=-test_loss&on=test").text
    assert "15 of 16 rows" in text
    assert "state=measured&amp;on=test&amp;sort=test_loss" in text
    assert "optimistic" in text


def test_empty_study_list_links_to_a_new_study(world):
    text = world.client(**HTML_HEADERS).get("/studies").text
    assert "There is no study yet" in text
    assert 'href="/studies/new"' in text
    reader = world.client("ada", Scope.READ, **HTML_HEADERS).get("/studies").text
    assert 'href="/studies/new"' not in reader


def test_page_of_a_waiting_study_shows_no_results(world, root):
    number = world.ledger.queue.submit(study("waiting"), "ada").study_id
    assert "There are no results yet" in root.get(f"/studies/{number}").text
    assert "Nothing is measured yet" in root.get(f"/studies/{number}/leaderboard").text
    assert root.get(f"/studies/{number}/charts/curves.json").json()["figure"] is None


def test_secrets_of_the_settings_are_not_shown(world, root):
    secret = {"token": SecretStr("bln_hush"), "database": "postgresql+psycopg://ada:hush@host/name"}
    secret["checkpoints"] = "sftp://ada:hush@host/kept"
    world.context.settings = world.settings.model_copy(update=secret)
    text = root.get("/settings").text
    assert text.count("set, not shown") == 2
    assert "sftp://ada:***@host/kept" in text
    assert "hush" not in text


def test_settings_are_shown_as_the_environment_has_them(root):
    values = dict(re.findall(r"<code>BLN_SEARCH_(\w+)</code></th><td><code>(.*?)</code>", root.get("/settings").text))
    assert json.loads(unescape(values["HOSTS"])) == ["testserver"]
    assert values["DATABASE"] == "not set"
    assert "None" not in values.values()


def test_similar_points_have_distinct_labels(world, root):
    """Two points that are alike in the digits that are shown."""
    first, second = complete_sampled_study(world, "first"), complete_sampled_study(world, "second")
    page = root.get(f"/studies/{first}").text
    assert len(re.findall(r'id="trial-\d+"', page)) == 4
    assert "MBN, effect of λ" in page.partition('<pre tabindex="0"')[2]
    compared = root.get(f"/compare?study={first}&study={second}").text
    assert "learning_rate=0.01234" in compared
    assert "training.learning_rate" not in compared
    ranks = root.get(f"/compare/ranks.json?study={first}&study={second}").text
    assert "learning_rate=0.01234" in ranks
    assert "training.learning_rate" not in ranks
    configurations = [root.get(f"/studies/{first}/configurations/{code}").text for code in ("FFFF", "TTFF", "TFTF")]
    shown = [re.sub(r'<input type="hidden"[^>]*>', "", text) for text in configurations]
    assert all("{&#34;training" not in text for text in shown)
    labels = json.loads(ranks)["figure"]["data"][0]["x"]
    assert len(labels) == len(set(labels)) == 4


def test_study_list_counts_the_top_group_like_the_leaderboard(world, root):
    number = world.complete("compared", seeds=(0, 1, 2))
    analysis = compute_analysis(world.ledger, number, None)
    sharing = sum(row.in_top_group for row in analysis.comparison.rows)
    assert sharing > 1
    board = world.context.leaderboards.get(number, world.ledger.studies.get(number).planned * 32)
    board.__dict__["top_group_by_seeds"] = {board.leaderboard.best.key: 1.0}  # what seeds alone would say
    assert f"not significantly different from {sharing - 1} more" in root.get(f"/studies/best?study={number}").text
    assert 'not significantly different from the first"' in root.get(f"/studies/{number}/parts/leading").text


def test_arms_with_different_missing_seeds_have_pages(world, root):
    number = world.ledger.queue.submit(
        study("uneven", seeds=(0, 1, 2), arms="[{method: bln}, {method: ln}]"), "ada"
    ).study_id
    world.ledger.studies.start(number, lambda _: True, "host/1/0")
    for trial in world.ledger.trials.list_open(number):
        if (trial.spec.arm.label, trial.spec.seed) in (("bln", 0), ("ln", 2)):
            world.ledger.attempts.record_divergence(
                world.ledger.attempts.claim_trial(trial.id, "host/1/0"), "the loss is not a number"
            )
        else:
            finish_trial(world.ledger, trial)
    for part in ("", "/leaderboard", "/parts/leading", "/charts/configurations.json", "/charts/ranks.json"):
        assert root.get(f"/studies/{number}{part}").status_code == 200
    assert "No row has all its seeds yet" in root.get(f"/studies/{number}/leaderboard").text
    assert root.get(f"/studies/best?study={number}").status_code == 200


def test_completed_large_study_shows_its_final_table(world, root, monkeypatch):
    from service.pages import study as page

    monkeypatch.setattr(page, "_MAX_RESULTS_BEFORE_PAGE", 1)
    number = world.ledger.queue.submit(study("large", seeds=(0, 1, 2)), "ada").study_id
    world.ledger.studies.start(number, lambda _: True, "host/1/0")
    first, *other_trials = world.ledger.trials.list_open(number)
    finish_trial(world.ledger, first)
    root.get(f"/studies/{number}/parts/leading")
    for trial in other_trials:
        finish_trial(world.ledger, trial)
    assert "data-later" in root.get(f"/studies/{number}").text, "the script asks for the rest"
    world.ledger.studies.finish(number, runner="host/1/0")
    compute_analysis(world.ledger, number, None)
    assert "data-later" not in root.get(f"/studies/{number}/parts/leading").text
    assert "data-later" not in root.get(f"/studies/{number}").text


def test_event_during_rendering_comes_from_the_stream(world, root, monkeypatch):
    number = world.ledger.queue.submit(study("events"), "ada").study_id
    list_last = EventRepository.list_last

    def list_after_another_event(events, study_id, limit):
        world.ledger.queue.pause(study_id)
        return list_last(events, study_id, limit)

    monkeypatch.setattr(EventRepository, "list_last", list_after_another_event)
    text = root.get(f"/studies/{number}").text
    event_numbers = [int(value) for value in re.findall(r'<li value="(\d+)"', text)]
    assert event_numbers
    assert max(event_numbers) == int(re.search(r'data-last="(\d+)"', text)[1])


def test_wrong_sessions_are_rate_limited(world):
    anonymous = world.client(None)
    codes = [
        anonymous.get("/signed-in", headers={"Cookie": "bln_search_session=wrong"}).status_code for _ in range(150)
    ]
    assert codes.count(200) == 100
    assert set(codes[100:]) == {429}


def test_number_of_queries_per_page_is_constant(world, root):
    from sqlalchemy import event

    numbers = [world.complete("few", seeds=(0,)), world.complete("many", seeds=range(8))]

    def count_queries(path):
        world.context.leaderboards.__init__(world.ledger)
        statements = []
        listener = lambda *arguments: statements.append(arguments[2])  # noqa: E731
        event.listen(world.ledger.database.engine, "before_cursor_execute", listener)
        assert root.get(path).status_code == 200
        event.remove(world.ledger.database.engine, "before_cursor_execute", listener)
        return len([statement for statement in statements if statement.startswith("SELECT")])

    parts = ("", "/leaderboard", "/charts/curves.json", "/charts/ranks.json", "/configurations/TTFF")
    one_seed_counts, eight_seed_counts = (
        [count_queries(f"/studies/{number}{part}") for part in parts] for number in numbers
    )
    assert one_seed_counts == eight_seed_counts
    before = count_queries("/studies")
    for index in range(3):
        world.complete(f"more{index}")
    assert count_queries("/studies") == before
    assert max(one_seed_counts) <= 12


def test_static_files_are_cached_only_with_their_version(world, root):
    for path in ("service.css", "study.js", "plotly.js"):
        assert "immutable" in root.get(f"/static/{path}?v=1").headers["cache-control"]
        assert root.get(f"/static/{path}").headers["cache-control"] == "no-cache"
    assert root.get("/static/plotly.js", headers={"Accept-Encoding": "identity"}).text.startswith("/**")
    assert root.get("/static/../app.py").status_code == 404
    assert "immutable" not in root.get("/static/none.js?v=1").headers["cache-control"]


def test_leading_rows_without_a_value_are_a_sentence(world, root):
    study_id, trials = start_study(world.ledger, "diverged", "ada")
    for trial in trials:
        world.ledger.attempts.record_divergence(world.ledger.attempts.claim_trial(trial.id, RUNNER), "not finite")
    world.ledger.studies.finish(study_id, runner=RUNNER)
    text = root.get(f"/studies/{study_id}/parts/leading").text
    assert "No configuration was measured under every seed" in text
    assert "<table" not in text
    assert "<table" in root.get(f"/studies/{world.complete()}/parts/leading").text
