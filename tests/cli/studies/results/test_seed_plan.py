"""`bln-search plan` prints how many seeds would decide in a study."""

from __future__ import annotations

import pytest

from bln_search.core.errors import DataError

COLUMNS = "arm", "configuration", "population", "difference", "deviation", "error_of_examples"


def test_each_row_that_is_not_practically_equal_to_the_best_has_its_seeds(world, records):
    study = world.complete("pilot", seeds=(0, 1, 2))
    lines = records("plan", study, "--effect", "1000", "--quiet")
    best = records("leaderboard", study, "--limit", "1")[0]["configuration"]
    assert best not in {line["configuration"] for line in lines}
    for line in lines:
        assert {*line} == {*COLUMNS, "seeds_worse", "seeds_equal"}
        assert line["seeds_worse"] == 3
        assert min(line["difference"], line["deviation"], line["error_of_examples"]) >= 0
    assert lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--effect", "0"), "--effect"),
        (("--effect", "nan"), "effect nan"),
        (("--power", "1"), "--power"),
        (("--power", "nan"), "power nan"),
        ((), "one seed"),
    ],
)
def test_what_cannot_be_planned_is_one_error(options, message, world, invoke):
    study = world.complete("pilot", seeds=(0,))
    ended = invoke("plan", study, *options)
    assert ended.exit_code != 0
    assert isinstance(ended.exception, SystemExit | DataError)
    assert message in f"{ended.stderr}{ended.exception}"
