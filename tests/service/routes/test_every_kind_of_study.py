"""Every path that reads answers for every kind of study: none assumes sections, trials or an analysis."""

from __future__ import annotations

import re
from itertools import product

import pytest
from fastapi.routing import APIRoute

from bln_search.core.enums import Scope
from bln_search.specs import parse_study
from bln_search.worker.analysis import compute_and_store_analysis
from service.pages.charts import CHARTS as CATALOG
from service.pages.compare_charts import _CHARTS as _COMPARISON_CHARTS
from tests.support.external_results import submit
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import HTML_HEADERS, STUDIES, application
from tests.support.then_trained_study import complete_then_trained_study

SAMPLED = """
name: sampled
data: {name: digits}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
space: {training.learning_rate: {kind: float, low: 0.001, high: 0.1}}
search: {sampler: random, trials: 4}
"""


def submit_waiting(world, text):
    return world.queue.submit_study(parse_study(text), "ada").study_id


KINDS = {
    "complete": lambda world: world.complete("complete"),
    "arms": lambda world: world.complete("arms", arms="[{method: bn}, {method: none}, {method: bln, name: x}]"),
    "conditions": lambda world: world.complete("conditions", conditions="[fog-3]", batch_sizes="[25, 50]"),
    "blends": lambda world: world.complete("blends", blends="[0.5]", splits="[train]"),
    "waiting": lambda world: submit_waiting(world, SAMPLED),
    "grid": lambda world: complete_sampled_study(world, "grid"),
    "searched": lambda world: complete_then_trained_study(world.ledger, "searched", "ada"),
    "submitted": lambda world: submit(world.ledger, "submitted").study_id,
    "submitted twice": lambda world: submit(world.ledger, "own", networks=1, batch_size=4).study_id,
}


def iter_routes(routes, prefix=""):
    """Yield paths with parameters of every GET route, also of included and mounted ones."""
    for route in routes:
        path = getattr(route, "path", "")
        if isinstance(route, APIRoute):
            if "GET" in route.methods:
                yield prefix + path
        elif getattr(route, "routes", None):
            yield from iter_routes(route.routes, prefix + path)
        elif (included := getattr(route, "original_router", None)) is not None:
            context = getattr(route, "include_context", None)
            yield from iter_routes(included.routes, prefix + getattr(context, "prefix", ""))


PATHS = sorted(set(iter_routes(application().routes)))
OF_STUDY = [path for path in PATHS if "{study_id" in path]


VALUES = {
    "code": ("FFFF", "MMMM", "none"),
    "checkpoint_id": (1,),
    "export_id": (1,),
    "secret": ("bln_none",),
    "name": tuple(dict.fromkeys((*CATALOG, *_COMPARISON_CHARTS))),
    "trial_id": (1,),
}
SLOW = pytest.mark.slow
QUERIES = {
    "fine-tune": ({"arm": "bln", "configuration": "FFFF"},),
    "leaderboard": ({}, {"format": "csv"}, {"format": "latex"}, {"format": "markdown"}, {"on": "test"}),
    "difference": ({}, {"first": "1", "second": "2"}),
    "live": (),  # a stream that does not end
}


def iter_addresses(path, study_id, trial_ids):
    names = re.findall(r"{(\w+)", path)
    values = {**VALUES, "study_id": (study_id,), "trial_id": trial_ids or (1,)}
    for combination in product(*(values[name] for name in names)):
        address = path
        for name, value in zip(names, combination, strict=True):
            address = re.sub(rf"{{{name}[^}}]*}}", str(value), address)
        for query in QUERIES.get(address.rsplit("/", 1)[-1], ({},)):
            yield address, query


def list_failures(world, addresses):
    root = world.client("root", Scope.ADMIN)
    failures = []
    for address, query in addresses:
        response = root.get(address, params=query, headers={} if address.startswith("/api/") else HTML_HEADERS)
        if response.status_code >= 500:
            failures.append((address, query, response.status_code))
    return failures


def test_paths_of_studies_are_found():
    assert len(OF_STUDY) > 30
    assert "/api/v1/studies/{study_id:number}/leaderboard" in OF_STUDY
    assert "/studies/{study_id:number}/parts/difference" in OF_STUDY


FAST_KINDS = ("submitted", "waiting")


@pytest.mark.parametrize("kind", [kind if kind in FAST_KINDS else pytest.param(kind, marks=SLOW) for kind in KINDS])
def test_every_path_of_a_study_answers(world, kind):
    study_id = KINDS[kind](world)
    if kind != "waiting":
        compute_and_store_analysis(world.ledger, study_id, None)
    trials = world.client().get(f"{STUDIES}/{study_id}/trials").json()["items"]
    trial_ids = tuple(trial["id"] for trial in trials[:1])
    addresses = [address for path in OF_STUDY for address in iter_addresses(path, study_id, trial_ids)]
    assert list_failures(world, addresses) == []


def test_every_pair_of_kinds_is_compared(world):
    ids = [make(world) for make in KINDS.values()]
    queries = [{"study": selected} for selected in (*product(ids[-1:], ids[:-1]), tuple(ids), ids[-2:])]
    paths = ["/compare", *(f"/compare/{name}.{form}" for name in _COMPARISON_CHARTS for form in ("csv", "json"))]
    assert list_failures(world, product(paths, queries)) == []
    assert list_failures(world, ((path, {}) for path in PATHS if "{" not in path and path != "/readyz")) == []
