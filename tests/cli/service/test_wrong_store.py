"""A host that does not see the shared checkpoint folder gets one error, before it runs a study or serves one."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import WrongCheckpointStoreError
from bln_search.core.states import StudyState
from tests.support.service_world import study

STUDY = "{name: own, data: {name: digits}, model: {name: mlp, widths: [4]}, arms: [{method: bln}], seeds: [0]}"


@pytest.mark.parametrize("folder", ["private", "not mounted"])
@pytest.mark.parametrize("words", [("worker", "--once"), ("serve", "--port", "0"), ("run", "FILE")])
def test_process_does_not_start(words, folder, world, invoke, monkeypatch, tmp_path):
    world.ledger.checkpoints.claim_store(FolderStore(world.home / "checkpoints"))
    study_id = world.queue.submit_study(study("waiting"), "ada").study_id
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "private").mkdir()
    monkeypatch.setenv("BLN_SEARCH_CHECKPOINTS", str(tmp_path / folder))
    failed = invoke(*(word.replace("FILE", str(tmp_path / "study.yaml")) for word in words))
    assert failed.exit_code == 1
    assert isinstance(failed.exception, WrongCheckpointStoreError)
    assert str(world.home / "checkpoints") in str(failed.exception)
    assert [record.id for record in world.ledger.studies.list_studies()] == [study_id]
    assert world.ledger.studies.get(study_id).state is StudyState.ACCEPTED
    assert [path.name for path in tmp_path.glob("*/*") if path.parent.name == folder] == []
