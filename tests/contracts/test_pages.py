"""Every page of the service over every database, with unusual parameters."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from tests.support.service_world import World, study

NAMES = (
    "curves",
    "configurations",
    "switches",
    "ranks",
    "layers",
    "importance",
    "points",
    "front",
    "company",
    "epochs",
)


@pytest.fixture
def world(url, tmp_path):
    test_world = World(tmp_path / "home", database=url)
    yield test_world
    test_world.close()


def test_every_page_is_rendered_from_this_database(world):
    root = world.client("root", Scope.ADMIN, Accept="text/html")
    complete_id, other_id = world.complete(), world.complete("other", account="bob")
    waiting_id = world.ledger.queue.submit_study(study("waiting"), "ada").study_id
    paths = [
        *(
            "/studies",
            "/studies?text=%00&tag=%00",
            "/studies/rows?state=&text=don",
            "/tokens",
            "/settings",
            "/studies/new",
        ),
        *(
            f"/studies/{number}{part}"
            for number in (complete_id, waiting_id)
            for part in ("", "/leaderboard", "/charts")
        ),
        *(f"/studies/{complete_id}/charts/{name}.json" for name in NAMES),
        *(f"/studies/{complete_id}{part}" for part in ("/configurations/TTFF", "/parts/leading", "/parts/cells")),
        f"/studies/best?study={complete_id}&study={2**31}&study={2**63}",
        *(f"/compare{part}?study={complete_id}&study={other_id}" for part in ("", "/ranks.json", "/ranks.csv")),
    ]
    assert {path: root.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
