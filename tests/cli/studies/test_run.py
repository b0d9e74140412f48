"""`bln-search run` writes nothing into the place of a checkpoint store that is not mounted."""

from __future__ import annotations

from contextlib import closing

from bln_search.core.errors import CheckpointStoreError
from bln_search.specs import load_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.worker.small_study import SMALL_STUDY


def test_a_missing_store_of_earlier_trials_is_not_created(invoke, home, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(SMALL_STUDY.replace("LR", "0.002"))
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        study_id = ledger.studies.store_study_once(load_study(file))
        ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "host/1/0")
    done = invoke("run", file)
    assert isinstance(done.exception, CheckpointStoreError)
    assert "mount it" in str(done.exception)
    assert not (home / "checkpoints").exists()
