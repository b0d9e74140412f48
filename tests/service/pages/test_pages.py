"""Every page: it is rendered, escapes text, has an error page, and needs a constant number of queries."""

from __future__ import annotations

import json
import re

import pytest
from sqlalchemy import update

from bln_search.storage.engine import write_session
from bln_search.storage.tables import StudyRow
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import finish_trial, study

PAGES = (
    "/studies",
    "/studies/new",
    "/compare",
    "/configurations",
    "/configurations?method=none",
    "/configurations?method=ap2",
    "/tokens",
    "/settings",
)


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
        assert "^" not in response.text, path  # no regular expression


@pytest.mark.parametrize("page", ["", "/leaderboard", "/charts", "/trials", "/share"])
def test_every_page_of_a_study_shows_its_edited_title(world, root, page):
    number = world.complete()
    world.ledger.queue.update_study_metadata(number, {"title": "An edited title"})
    assert "An edited title" in root.get(f"/studies/{number}{page}").text


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


def labels_of(text):
    return set(re.findall(r"learning_rate=[\d.]+", text))


def test_similar_points_have_distinct_labels(world, root):
    """Two points that are alike in the digits that are shown."""
    first, second = complete_sampled_study(world, "first"), complete_sampled_study(world, "second")
    page = root.get(f"/studies/{first}").text
    assert len(re.findall(r'id="trial-\d+"', page)) == 4
    both = {"learning_rate=0.012341", "learning_rate=0.012344"}
    assert labels_of(page) == both
    compute_and_store_analysis(world.ledger, first, None)
    assert labels_of(root.get(f"/studies/{first}/leaderboard").text) <= both
    for part in ("trials", "leaderboard?columns=parameter:learning_rate"):
        cells = re.findall(r">(?:learning_rate=)?([\d.]+)<", root.get(f"/studies/{first}/{part}").text)
        assert {label.partition("=")[2] for label in both} <= set(cells)
    assert "MBN, effect of λ" in page.partition('<pre tabindex="0"')[2]
    compared = root.get(f"/compare?study={first}&study={second}").text
    assert labels_of(compared) == both
    assert "training.learning_rate" not in compared
    ranks = root.get(f"/compare/ranks.json?study={first}&study={second}").text
    assert labels_of(ranks) == both
    assert "training.learning_rate" not in ranks
    configurations = [root.get(f"/studies/{first}/configurations/{code}").text for code in ("FFFF", "TTFF", "TFTF")]
    shown = [re.sub(r'<input type="hidden"[^>]*>', "", text) for text in configurations]
    assert all("{&#34;training" not in text for text in shown)
    labels = json.loads(ranks)["figure"]["data"][0]["x"]
    assert len(labels) == len(set(labels)) == 4


def test_arms_with_different_missing_seeds_have_pages(world, root):
    number = world.ledger.queue.submit_study(
        study("uneven", seeds=(0, 1, 2), arms="[{method: bln}, {method: ln}]"), "ada"
    ).study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    for trial in world.ledger.trials.list_claimable_trials(number):
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
    assert max(one_seed_counts) <= 13
