"""Commands that change or export a study refuse a name that several studies have, and list their numbers."""

from __future__ import annotations

import pytest

from tests.support.service_world import study

CHANGES = {
    "tag": ("STUDY", "final"),
    "delete": ("STUDY", "--yes"),
    "cancel": ("STUDY",),
    "pause": ("STUDY",),
    "resume": ("STUDY",),
    "retry": ("STUDY",),
    "export": ("STUDY", "--output", "FOLDER"),
    "probe": ("STUDY", "--reshuffles", "1"),
    "search-layers": ("STUDY",),
    "share-link create": ("STUDY",),
    "share-link revoke": ("STUDY", "1"),
}
OF_THE_SERVICE = ("cancel", "pause", "resume", "retry")
OF_THE_DATABASE = ("probe", "search-layers")
CALLS = [
    *((verb, False) for verb in CHANGES if verb not in OF_THE_SERVICE),
    *((verb, True) for verb in CHANGES if verb not in OF_THE_DATABASE),
]


def words_of(verb, name, folder):
    words = (word.replace("STUDY", name).replace("FOLDER", str(folder)) for word in CHANGES[verb])
    return (*verb.split(), *words)


@pytest.mark.parametrize(("verb", "from_service"), CALLS)
def test_a_name_of_two_studies_needs_the_number(verb, from_service, world, invoke, service, tmp_path):
    ids = [world.queue.submit_study(study("twice", seeds=(number,)), "ada").study_id for number in (0, 1)]
    before = [world.ledger.study_lists.find_study_item(study_id) for study_id in ids]
    refused = invoke(*words_of(verb, "twice", tmp_path / "out"), *(service if from_service else ()))
    assert refused.exit_code == 1
    assert all(f"{study_id} (accepted, created " in str(refused.exception) for study_id in ids)
    assert [world.ledger.study_lists.find_study_item(study_id) for study_id in ids] == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_number_and_unique_name_select_a_study(from_service, world, invoke, service):
    first, second = (world.queue.submit_study(study("twice", seeds=(number,)), "ada").study_id for number in (0, 1))
    world.queue.submit_study(study("twice-more"), "ada")
    options = service if from_service else ()
    assert invoke("show", "twice", *options).exit_code == 0  # a command that only reads takes the newest
    assert invoke("delete", first, "--yes", *options).exit_code == 0
    assert invoke("delete", "twice", "--yes", *options).exit_code == 0
    assert world.ledger.study_lists.find_study_item(second) is None
