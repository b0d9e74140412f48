"""`bln-search run` on a database that has studies already."""

from __future__ import annotations

from contextlib import closing

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import CheckpointStoreError
from bln_search.specs import load_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.support.service_world import RUNNER, finish_trial
from tests.worker.small_study import SMALL_STUDY, small_study


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


def test_a_complete_study_and_another_one_of_its_name_are_named(invoke, home, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(SMALL_STUDY.replace("LR", "0.002"))
    with closing(open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")) as ledger:
        store = FolderStore(home / "checkpoints")
        store.check_read_and_write_access()
        ledger.checkpoints.claim_store(store)
        complete = ledger.studies.store_study_once(load_study(file))
        ledger.studies.lease_and_start(complete, lambda _: True, RUNNER)
        for trial in ledger.trials.list_claimable_trials(complete):
            finish_trial(ledger, trial)
        ledger.studies.finish_run(complete, runner=RUNNER)
        newer = ledger.studies.store_study_once(small_study("0.5"))
    done = invoke("run", file)
    assert done.exit_code == 0, done.output
    of_namesake, of_complete = [line for line in done.stderr.splitlines() if line.startswith("study ")]
    assert of_namesake.startswith(f"study {newer} ")
    assert of_complete.startswith(f"study {complete} ")
    assert of_complete.endswith("ledger.sqlite3")
