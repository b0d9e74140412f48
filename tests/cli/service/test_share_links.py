"""`bln-search share-link` creates, lists and revokes links, of the database as of a service."""

from __future__ import annotations

import pytest

from tests.support.service_world import study


@pytest.fixture(params=[False, True], ids=["database", "service"])
def options(request, service):
    return service if request.param else ()


def test_link_is_printed_once_and_shows_the_study(world, invoke, records, options):
    study_id = world.complete("done")
    created = invoke("share-link", "create", "done", "--label", "for bob", "--days", "3", *options)
    assert created.exit_code == 0, created.output
    path = created.stdout.strip().removeprefix("http://testserver")
    assert path.startswith("/shared/bln_")
    assert world.client(None, Accept="text/html").get(path).url.path == f"/studies/{study_id}"
    (listed,) = records("share-link", "list", "done", *options)
    assert (listed["label"], listed["account"], listed["revoked_at"]) == ("for bob", "ada", None)
    assert path.rpartition("/")[2] not in str(listed)


def test_revoked_link_shows_nothing(world, invoke, records, options):
    world.complete("done")
    path = invoke("share-link", "create", "done", *options).stdout.strip().removeprefix("http://testserver")
    number = records("share-link", "list", "done", *options)[0]["id"]
    assert invoke("share-link", "revoke", "done", number, *options).exit_code == 0
    assert world.client(None).get(path, follow_redirects=False).status_code == 410
    assert records("share-link", "list", "done", *options)[0]["revoked_at"] is not None
    assert invoke("share-link", "revoke", "done", 999, *options).exit_code != 0


def test_study_without_an_account_needs_a_service(world, invoke):
    world.ledger.studies.store_study_once(study("own"))
    result = invoke("share-link", "create", "own")
    assert result.exit_code == 1
    assert world.ledger.share_links.list_links(1) == []


@pytest.mark.parametrize("days", ["0", "91"])
def test_lifetime_is_limited(world, invoke, days):
    world.complete("done")
    assert invoke("share-link", "create", "done", "--days", days).exit_code == 2
