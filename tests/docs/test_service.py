"""What the page about the service says of states and settings is what the program has."""

from __future__ import annotations

import re

import pytest

from bln_search.core.states import TRANSITIONS, ExportState, StudyState
from bln_search.settings import Settings
from tests.docs.pages import PAGES, code_words, written

PAGE = PAGES["service.md"]


@pytest.mark.parametrize(
    ("heading", "states"), [("## Study states", StudyState), ("### Export a network", ExportState)]
)
def test_which_state_may_follow_which(heading, states):
    told = {}
    for line in re.split(r"\n##+ ", written(PAGE).partition(f"\n{heading}\n")[2])[0].splitlines():
        cells = [re.sub(r"\([^)]*\)", "", cell).strip() for cell in line.strip("|").split("|")]
        if cells[0] in list(states):
            told[states(cells[0])] = {states(one.strip()) for one in cells[1].split(",") if one != "nothing"}
    expected = {state: set(following) - {state} for state, following in TRANSITIONS[states].items()}
    assert told == expected


def test_every_setting_named_exists():
    named = [word.partition("=")[0].removeprefix("BLN_SEARCH_") for word in code_words(PAGE)]
    named = [word for word in named if re.fullmatch(r"[A-Z]+(_[A-Z]+)*", word) and word not in ("GET", "POST", "PATCH")]
    assert len(named) > 9
    assert {name.lower() for name in named} <= Settings.model_fields.keys()
