"""Tags of studies, and the filters of lists, over every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bln_search.core.errors import StaleRevisionError, TagError
from bln_search.core.tags import MAX_TAGS
from bln_search.storage.pagination import PageRequest
from tests.support.service_world import study


@pytest.fixture
def studies(ledger):
    """Three studies, the last of another account."""
    owners = {"alpha": "ada", "beta": "ada", "gamma": "bob"}
    return {name: ledger.queue.submit_study(study(name), owner).study_id for name, owner in owners.items()}


def names(ledger, **filters):
    return [item.name for item in ledger.study_lists.list_study_page_plus_one(PageRequest(50, "created"), **filters)]


def test_tags_are_sorted_stored_once_and_replaced(ledger, studies):
    ledger.queue.update_study_metadata(studies["alpha"], {"tags": ["mnist", "a.b:c-d_1", "mnist"]}, account="ada")
    assert ledger.study_lists.find_study_item(studies["alpha"]).tags == ("a.b:c-d_1", "mnist")
    assert ledger.studies.get(studies["alpha"]).tags == ("a.b:c-d_1", "mnist")
    (event,) = ledger.events.list_newest_events(studies["alpha"], 1)
    assert (event.kind, event.data) == ("study_changed", {"fields": ["tags"], "account": "ada"})
    ledger.queue.update_study_metadata(studies["alpha"], {"tags": [], "title": "new"})
    assert ledger.study_lists.find_study_item(studies["alpha"]).tags == ()
    assert ledger.events.list_newest_events(studies["alpha"], 1)[0].data == {"fields": ["tags", "title"]}


def test_added_and_removed_tags_keep_the_others(ledger, studies):
    study_id = studies["alpha"]
    ledger.queue.update_study_metadata(study_id, {"tags": ["a", "b"]})
    ledger.queue.update_study_metadata(study_id, {"add_tags": ["c"], "remove_tags": ["a", "unknown"]}, account="ada")
    assert ledger.study_lists.find_study_item(study_id).tags == ("b", "c")
    assert ledger.events.list_newest_events(study_id, 1)[0].data == {"fields": ["tags"], "account": "ada"}
    before = ledger.study_lists.find_study_item(study_id).revision
    ledger.queue.update_study_metadata(study_id, {"add_tags": ["b"], "remove_tags": ["a"]})
    assert ledger.study_lists.find_study_item(study_id).revision == before


def test_tags_that_are_added_at_the_same_time_are_all_kept(ledger, studies):
    added = [f"t{number}" for number in range(MAX_TAGS)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda tag: ledger.queue.update_study_metadata(studies["alpha"], {"add_tags": [tag]}), added))
    assert ledger.study_lists.find_study_item(studies["alpha"]).tags == tuple(sorted(added))
    with pytest.raises(TagError, match="21 tags are too many"):
        ledger.queue.update_study_metadata(studies["alpha"], {"add_tags": ["more"]})


def test_equal_tags_are_no_change_and_old_revisions_are_refused(ledger, studies):
    study_id = studies["alpha"]
    before = ledger.study_lists.find_study_item(study_id).revision
    ledger.queue.update_study_metadata(study_id, {"tags": ["x"]}, before)
    ledger.queue.update_study_metadata(study_id, {"tags": ["x"]})
    assert ledger.study_lists.find_study_item(study_id).revision == before + 1
    with pytest.raises(StaleRevisionError, match="changed meanwhile"):
        ledger.queue.update_study_metadata(study_id, {"tags": ["y"]}, before)
    assert ledger.study_lists.find_study_item(study_id).tags == ("x",)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["Upper"], "'Upper' cannot be a tag"),
        (["a b"], "cannot be a tag"),
        ([""], "cannot be a tag"),
        (["x\n"], "cannot be a tag"),
        (["x" * 33], "at most 32"),
        ([f"t{number}" for number in range(MAX_TAGS + 1)], "21 tags are too many"),
    ],
)
def test_invalid_tags_change_nothing(ledger, studies, tags, message):
    with pytest.raises(TagError, match=message):
        ledger.queue.update_study_metadata(studies["alpha"], {"tags": tags, "title": "new"})
    assert ledger.study_lists.find_study_item(studies["alpha"]).title == "A study"


def test_studies_are_filtered_by_all_of_several_tags(ledger, studies):
    ledger.queue.update_study_metadata(studies["alpha"], {"tags": ["x", "y"]})
    ledger.queue.update_study_metadata(studies["beta"], {"tags": ["x"]})
    ledger.queue.update_study_metadata(studies["gamma"], {"tags": ["x", "z"]})
    assert names(ledger, tags=["x"]) == ["alpha", "beta", "gamma"]
    assert names(ledger, tags=["x", "y"]) == ["alpha"]
    assert names(ledger, tags=["x"], owner="bob") == ["gamma"]
    assert ledger.study_lists.count_studies_by_tag("ada") == {"x": 2, "y": 1}
    assert ledger.study_lists.count_studies_by_tag(None) == {"x": 3, "y": 1, "z": 1}
    ledger.studies.delete_and_list_unneeded_files(studies["alpha"])
    assert ledger.study_lists.count_studies_by_tag("ada") == {"x": 1}


def test_text_is_found_in_name_title_and_tags(ledger, studies):
    ledger.queue.update_study_metadata(studies["alpha"], {"title": "Digits, 50 % of Batches"})
    ledger.queue.update_study_metadata(studies["beta"], {"tags": ["final_run"]})
    assert names(ledger, text="AMM") == ["gamma"]
    assert names(ledger, text="of batches") == ["alpha"]
    assert names(ledger, text="0 %") == ["alpha"]
    assert names(ledger, text="l_r") == ["beta"]  # `_` and `%` are no wildcards
    assert names(ledger, text="5%d") == []


@pytest.mark.parametrize("text", ["ÄRGER", "ärger", "Ärger", "mit été", "ÉTÉ", "ΣΥΝ", "ß"])
def test_text_is_found_in_small_and_capital_letters_of_every_script(ledger, studies, text):
    ledger.queue.update_study_metadata(studies["alpha"], {"title": "Ärger mit ÉTÉ, Σύν συν, Maß"})
    ledger.queue.update_study_metadata(studies["beta"], {"title": "ärger MIT été, σύν ΣΥΝ, maß"})
    ledger.queue.update_study_metadata(studies["gamma"], {"title": "arger mit ete, syn, mass"})
    assert names(ledger, text=text) == ["alpha", "beta"]
