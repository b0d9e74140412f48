"""Pruning removes networks that are not recommended, and never a needed one."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import TrialState
from bln_search.storage.engine import read_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.needed_files import read_digests_by_needed_file
from tests.contracts.checkpoints.stored_networks import ARMS, DAY, clean, file_names, finish_trials, submit_study
from tests.support.checkpoint_records import name, save_recommendation


def test_networks_without_recommendation_are_pruned(later_ledger, store):
    """Their evaluations stay."""
    study_id = submit_study(later_ledger, "first", seeds=(0, 1))
    finish_trials(later_ledger, study_id, range(1, 7))
    before = later_ledger.trials.list_trials(study_id)
    for number in range(1, 7):
        store.write(name(number), b"weights")
    save_recommendation(later_ledger, study_id, "bn")
    assert clean(later_ledger, store, recommended=True, best=0)[0] == 4
    recommended_names = {name(number) for number, trial in enumerate(before, start=1) if trial.arm == "bn"}
    assert file_names(store) == recommended_names
    assert len(recommended_names) == 2
    assert [replace(trial, freed_at=None) for trial in later_ledger.trials.list_trials(study_id)] == before
    freed = {trial.checkpoint.file for trial in later_ledger.trials.list_trials(study_id) if trial.freed_at is not None}
    assert freed == {name(number) for number in range(1, 7)} - recommended_names
    with read_session(later_ledger.database.engine) as session:
        assert set(read_digests_by_needed_file(session)) == recommended_names
    assert later_ledger.prunable_files.list_prunable_files_by_study(0)[0].files == frozenset()
    assert later_ledger.events.list_events(study_id)[-1].kind == "weights_freed"


def test_best_rows_are_kept_besides_the_recommended_one(later_ledger, store):
    study_id = submit_study(later_ledger, "first")  # only bln has rows
    finish_trials(later_ledger, study_id, [1, 2, 3])
    for number in (1, 2, 3):
        store.write(name(number), b"weights")
    save_recommendation(later_ledger, study_id, "ln")
    files = {trial.arm: trial.checkpoint.file for trial in later_ledger.trials.list_trials(study_id)}
    clean(later_ledger, store, recommended=True, best=1)
    assert file_names(store) == {files["ln"], files["bln"]}


def test_study_without_recommendation_keeps_all_networks(later_ledger, store):
    unanalysed, without_row, waiting = (
        submit_study(later_ledger, study_name) for study_name in ("unanalysed", "nothing", "waiting")
    )
    finish_trials(later_ledger, unanalysed, [1, 2, 3])
    finish_trials(later_ledger, without_row, [4, 5, 6])
    finish_trials(later_ledger, waiting, [7], trial_limit=1)
    save_recommendation(later_ledger, without_row, None)
    for number in range(1, 8):
        store.write(name(number), b"weights")
    prunable = {
        networks.name: networks.reason for networks in later_ledger.prunable_files.list_prunable_files_by_study(1)
    }
    assert prunable == {"unanalysed": "it is not analysed yet", "nothing": "no row is recommended: none"}
    assert clean(later_ledger, store, recommended=True)[0] == 0
    assert len(file_names(store)) == 7


FILES = st.integers(0, 11)
STUDIES = st.lists(
    st.fixed_dictionaries(
        {
            "files": st.lists(FILES, min_size=3, max_size=3),
            "snapshots": st.lists(FILES, max_size=2, unique=True),
            "done": st.integers(0, 3),
            "recommended": st.sampled_from([*ARMS, None, "unanalysed"]),
        }
    ),
    min_size=1,
    max_size=4,
)


@given(
    studies=STUDIES,
    ages=st.lists(st.floats(0, 4), min_size=12, max_size=12),
    rounds=st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=3),
)
@hypothesis_settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_needed_and_recommended_files_are_never_removed(tmp_path, studies, ages, rounds):
    """Random studies that share files, random ages in days, cleaned several times in several ways."""
    folder = tmp_path / secrets.token_hex(8)
    ledger = open_and_upgrade_ledger(f"sqlite:///{folder / 'ledger.sqlite3'}")
    store = FolderStore(folder / "kept")
    try:
        referenced, recommended = fill(ledger, studies)
        for number, age in enumerate(ages):
            store.write(name(number), b"weights")
            moment = (datetime.now(UTC) - age * DAY).timestamp()
            os.utime(store.path / name(number), (moment, moment))
        recent_files = {name(number) for number, age in enumerate(ages) if age < 0.999}
        old_files = {name(number) for number, age in enumerate(ages) if age > 1.001}
        for recommended_only, best in rounds:
            before = file_names(store)
            clean(ledger, store, recommended=recommended_only, best=best)
            present = file_names(store)
            assert recommended <= present
            assert recent_files <= present
            if not any(flag for flag, _ in rounds):
                assert referenced <= present
                assert not (old_files - referenced) & present
            with read_session(ledger.database.engine) as session:
                needed = read_digests_by_needed_file(session).keys()
            assert needed <= present
            assert not (before & old_files) - needed & present
        for study_record in ledger.studies.list_studies():
            assert len(ledger.trials.list_trials(study_record.id)) == 3  # figures and rows stay
    finally:
        ledger.close()


def fill(ledger, studies):
    """The studies of a random example; the files that are named, and those that are recommended."""
    referenced, recommended = set(), set()
    for number, generated in enumerate(studies):
        study_id = submit_study(ledger, f"s{number}")
        files = [(generated["files"][0], generated["snapshots"]), *generated["files"][1:]]
        complete = generated["done"] == 3
        finish_trials(ledger, study_id, files, trial_limit=None if complete else generated["done"])
        if complete and generated["recommended"] != "unanalysed":
            save_recommendation(ledger, study_id, generated["recommended"])
        for trial in ledger.trials.list_trials(study_id):
            if trial.state is TrialState.FINISHED:
                trial_files = {trial.checkpoint.file, *(snapshot.file for snapshot in trial.checkpoint.snapshots)}
                referenced |= trial_files
                if complete and trial.arm == generated["recommended"]:
                    recommended |= trial_files
                if not complete or generated["recommended"] in (None, "unanalysed"):
                    recommended |= trial_files  # nothing of these studies may be given up
    return referenced, recommended
