"""Studies of several accounts with one name: which one a name means, and where the owner is printed."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from bln_search.core.errors import AmbiguousStudyError
from tests.support.service_world import study


@pytest.fixture
def admin(world, service):
    """Options of a call as admin."""
    return (*service[:2], "--token", world.secrets["root", Scope.ADMIN])


def submit(world, name, *owners):
    return [
        world.queue.submit_study(study(name, seeds=(number,)), owner).study_id for number, owner in enumerate(owners)
    ]


def test_admin_name_means_an_own_study(world, records, invoke, admin):
    own, other = submit(world, "shared", "root", "ada")
    assert invoke("delete", "shared", "--yes", *admin).exit_code == 0
    assert [record["id"] for record in records("list", *admin)] == [other]
    assert own != other


@pytest.mark.parametrize("owners", [("ada",), ("ada", "bob")])
def test_admin_needs_the_number_of_a_study_of_others(owners, world, invoke, admin):
    numbers = submit(world, "shared", *owners)
    failed = invoke("delete", "shared", "--yes", *admin)
    assert getattr(failed.exception, "status", None) == 404
    assert all(f"{number} of {owner}" in str(failed.exception) for number, owner in zip(numbers, owners, strict=True))
    assert len(world.ledger.studies.list_studies()) == len(owners)
    assert invoke("delete", numbers[0], "--yes", *admin).exit_code == 0


def test_database_prefers_studies_of_commands(world, invoke):
    submit(world, "shared", "ada", "bob")
    with pytest.raises(AmbiguousStudyError):
        world.ledger.studies.get_by_name_or_id("shared")
    own = world.ledger.studies.store_study_once(study("shared"))
    submit(world, "shared", "bob")
    assert world.ledger.studies.get_by_name_or_id("shared").id == own


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_owner_is_in_every_list_and_in_show(from_service, world, records, invoke, in_every_format, admin):
    (number,) = submit(world, "mine", "ada")
    words = admin if from_service else ()
    assert [record["owner"] for record in records("list", *words)] == ["ada"]
    assert invoke("list", *words).stdout.count("ada") == 1
    assert in_every_format("show", number, *words).json["owner"] == "ada"
    assert "ada" in invoke("show", number, *words).stdout


@pytest.mark.usefixtures("terminal")
def test_confirmation_and_results_name_the_owner(world, invoke, admin):
    (number,) = submit(world, "mine", "ada")
    assert f"study {number} (mine, owner ada)" in invoke("pause", number, *admin).stderr
    asked = invoke("delete", number, *admin, input="n\n")
    assert f"study {number} (mine, owner ada)" in asked.stdout
    assert f"study {number} (mine, owner ada)" in invoke("delete", number, "--yes", *admin).stderr
