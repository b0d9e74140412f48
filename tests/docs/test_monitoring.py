"""Every metric that the page, the dashboard and the alerts name is one of a service with a study, and the other way."""

from __future__ import annotations

import re

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.monitoring import FOLDER, OWN_LABELS, WORDS, dashboard, expressions, rules, selectors, words
from tests.docs.pages import PAGES, written
from tests.support.service_world import World

EXPRESSIONS = expressions()


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """What /metrics of a service has: labels and their values, by name."""
    world = World(tmp_path_factory.mktemp("monitored") / "service")
    world.complete()
    client = world.client()
    for path in ("/studies", "/nowhere", "/healthz"):
        client.get(path)
    found = {"up": []}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    world.close()
    return found


@pytest.mark.parametrize("expression", [text for _, text in EXPRESSIONS], ids=[place for place, _ in EXPRESSIONS])
def test_an_expression_asks_for_what_there_is(samples, expression):
    """Metric, labels, and where a label is told apart by its value, a value of it that occurs."""
    asked = list(selectors(expression))
    assert asked
    for name, conditions in asked:
        assert name in samples, name
        for label, sign, value in conditions:
            if label in OWN_LABELS:
                continue
            assert all(label in one for one in samples[name]), f"{name} has no {label}"
            if label in ("record", "state"):
                values = {one[label] for one in samples[name]}
                assert set(value.split("|") if "~" in sign else [value]) <= values, value
    labels = OWN_LABELS | {label for name, _ in asked for one in samples[name] for label in one} | {"le"}
    assert words(expression) <= WORDS | labels | {name for name, _ in asked}


def test_page_lists_exactly_the_metrics_with_their_labels_and_the_alerts(samples):
    page = written(PAGES["monitoring.md"])
    rows = re.findall(r"^\| `((?:bln_search|process)_\w+)` \|([^|]*)\|", page, re.MULTILINE)
    seen = {}
    for name, found in samples.items():
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        seen.setdefault(family, set()).update(label for one in found for label in one)
    del seen["up"]
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert told == {name: labels - {"le"} for name, labels in seen.items()}
    assert set(re.findall(r"`(BlnSearch\w+)`", page)) == {rule["alert"] for rule in rules()}


def test_prometheus_reads_the_rules_beside_its_configuration():
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert all((FOLDER / name).is_file() for name in configuration["rule_files"])
    (job,) = configuration["scrape_configs"]
    assert (job["job_name"], job["metrics_path"]) == ("bln-search", "/metrics")
    for rule in rules():
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_dashboard_asks_for_its_data_source_for_every_panel():
    board = dashboard()
    first, *others = board["templating"]["list"]
    assert (board["uid"], first["name"], first["type"], first["query"]) == (
        *("bln-search", "datasource"),
        *("datasource", "prometheus"),
    )
    assert {other["name"] for other in others} == OWN_LABELS
    assert "id" not in board
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        if panel["type"] != "row":
            assert {one["datasource"]["uid"] for one in (panel, *panel["targets"])} == {"${datasource}"}


def test_ledgers_are_not_added_up():
    """Several services of one database tell the same figures of it."""
    for place, expression in EXPRESSIONS:
        if re.search(r"bln_search_(records|queue|workers|database|checkpoint|disk)", expression):
            assert not re.search(r"sum( by \([^)]*\))? ?\((?!changes)", expression), place
