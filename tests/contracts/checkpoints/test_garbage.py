"""Garbage collection and pruning never remove a needed network."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bln_search.core.checkpoints import Folder, checkpoint_store
from bln_search.core.enums import Scope
from bln_search.core.errors import CheckpointStoreError, LedgerError
from bln_search.core.states import TrialState
from bln_search.storage.checkpoints.garbage import remove_garbage
from bln_search.storage.checkpoints.needed_files import find_needed_files
from bln_search.storage.checkpoints.ownership import write_ownership_marker
from bln_search.storage.engine import make_engine, read_session
from bln_search.storage.ledger import Ledger, open_ledger
from tests.support.checkpoint_records import make_checkpoint_record, name, save_recommendation
from tests.support.service_world import make_evaluations, study

DAY = timedelta(days=1)
ARMS = ("bln", "bn", "ln")


def every_worker_is_alive(_worker):
    return True


class Later:
    """A clock that is so far ahead of that of the disk: what was written now is that old."""

    def __init__(self, ahead):
        self.ahead = ahead

    def __call__(self):
        return datetime.now(UTC) + self.ahead


def submit(ledger, name, arms=ARMS, seeds=(0,)):
    ledger.tokens.create("ada", Scope.WRITE)
    parsed_study = study(name, seeds=seeds, arms=str([{"method": arm} for arm in arms]).replace("'", ""))
    return ledger.queue.submit(parsed_study, "ada").study_id


def run(ledger, study_id, files, *, trial_limit=None):
    """Finish trials of a study with networks of these numbers; complete it unless only the first so many are done."""
    ledger.studies.start(study_id, every_worker_is_alive, "host/1/0")
    for trial, number in list(zip(ledger.trials.list_open(study_id), files, strict=False))[:trial_limit]:
        token = ledger.attempts.claim_trial(trial.id, "host/1/0")
        record = (
            make_checkpoint_record(number[0], snapshots=number[1])
            if isinstance(number, tuple)
            else make_checkpoint_record(number)
        )
        ledger.attempts.record_checkpoint(token, record)
        ledger.attempts.finish_trial(token, make_evaluations(trial.spec.seed) if trial.spec.arm.label == "bln" else ())
    return ledger.studies.finish(study_id, runner="host/1/0", exhausted=trial_limit is None)


def clean(ledger, store, age=DAY, *, recommended=False, best=0):
    spare = ledger.pruner.list_prunable(best) if recommended else []
    garbage = ledger.garbage.find_garbage(store, age, spare)
    ledger.pruner.mark_freed(spare)
    return remove_garbage(store, garbage)


def names(store):
    return {file.name for file in store.files()}


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    if request.param == "s3":
        request.getfixturevalue("buckets")
        return checkpoint_store(f"s3://kept/{secrets.token_hex(8)}")
    return Folder(tmp_path / "kept")


@pytest.fixture
def later_ledger(ledger):
    """The ledger two days later."""
    return Ledger(ledger.database.engine, Later(2 * DAY))


def test_unneeded_files_are_removed(later_ledger, store):
    first = submit(later_ledger, "first", ("bln", "bn"))
    run(later_ledger, first, [1, 2])
    deleted = submit(later_ledger, "deleted")
    run(later_ledger, deleted, [2, 3, 4])
    for number in (1, 2, 3, 4, 9):
        store.write(name(number), b"weights")
    store.write(f".{name(8)}-abc_1", b"not finished")
    store.write("README.txt", b"somebody's own")
    later_ledger.studies.delete(deleted)
    garbage = later_ledger.garbage.find_garbage(store, DAY)
    assert (len(garbage.files), garbage.too_recent, garbage.unknown) == (4, 0, 1)
    assert names(store) > {name(9)}  # looking removes nothing
    assert clean(later_ledger, store) == (4, 3 * 7 + 12)
    assert names(store) == {name(1), name(2), "README.txt"}
    assert clean(later_ledger, store) == (0, 0)


def test_recent_file_without_a_row_is_kept(ledger, store):
    submit(ledger, "first")
    store.write(name(1), b"its row comes in a moment")
    assert clean(ledger, store) == (0, 0)
    assert clean(Ledger(ledger.database.engine, Later(timedelta(minutes=50))), store, timedelta(hours=1)) == (0, 0)
    assert clean(Ledger(ledger.database.engine, Later(timedelta(minutes=70))), store, timedelta(hours=1))[0] == 1


@pytest.mark.parametrize("age", [timedelta(0), timedelta(minutes=59)])
def test_too_short_age_is_rejected(ledger, store, age):
    with pytest.raises(LedgerError, match="1h or more"):
        ledger.garbage.find_garbage(store, age)


def test_snapshots_of_a_running_trial_are_kept(ledger, store):
    """Their rows come when it has trained, which may take days."""
    study_id = submit(ledger, "long", ("bln",))
    ledger.studies.start(study_id, every_worker_is_alive, "host/1/0")
    token = ledger.attempts.claim_trial(ledger.trials.list_open(study_id)[0].id, "host/1/0")
    store.write(name(1), b"after the first epoch")
    week = Ledger(ledger.database.engine, Later(7 * DAY))
    week.attempts.record_heartbeat([token])
    assert clean(week, store) == (0, 0)
    week.attempts.record_checkpoint(token, make_checkpoint_record(2, snapshots=[1]))
    week.attempts.finish_trial(token, make_evaluations(0))
    week.studies.finish(study_id, runner="host/1/0")
    assert clean(week, store) == (0, 0)
    assert name(1) in names(store)


def test_expired_attempt_protects_no_files(ledger, store):
    study_id = submit(ledger, "dead", ("bln",))
    ledger.studies.start(study_id, every_worker_is_alive, "host/1/0")
    ledger.attempts.claim_trial(ledger.trials.list_open(study_id)[0].id, "host/1/0")
    store.write(name(1), b"left by it")
    assert clean(Ledger(ledger.database.engine, Later(DAY / 2)), store)[0] == 0
    assert clean(Ledger(ledger.database.engine, Later(3 * DAY)), store)[0] == 1


def test_file_written_again_meanwhile_is_kept(ledger, tmp_path):
    store = Folder(tmp_path / "kept")
    submit(ledger, "first")
    store.write(name(1), b"weights")
    os.utime(store.path / name(1), (0, 0))
    garbage = ledger.garbage.find_garbage(store, DAY)
    store.write(name(1), b"weights")  # another trial came to the very same network
    assert remove_garbage(store, garbage) == (0, 0)


def test_networks_without_recommendation_are_pruned(later_ledger, store):
    """Their evaluations stay."""
    study_id = submit(later_ledger, "first", seeds=(0, 1))
    run(later_ledger, study_id, range(1, 7))
    before = later_ledger.trials.list_trials(study_id)
    for number in range(1, 7):
        store.write(name(number), b"weights")
    save_recommendation(later_ledger, study_id, "bn")
    assert clean(later_ledger, store, recommended=True, best=0)[0] == 4
    recommended_names = {name(number) for number, trial in enumerate(before, start=1) if trial.arm == "bn"}
    assert names(store) == recommended_names
    assert len(recommended_names) == 2
    assert [replace(trial, freed_at=None) for trial in later_ledger.trials.list_trials(study_id)] == before
    freed = {trial.checkpoint.file for trial in later_ledger.trials.list_trials(study_id) if trial.freed_at is not None}
    assert freed == {name(number) for number in range(1, 7)} - recommended_names
    with read_session(later_ledger.database.engine) as session:
        assert set(find_needed_files(session)) == recommended_names
    assert later_ledger.pruner.list_prunable(0)[0].files == frozenset()
    assert later_ledger.events.list_events(study_id)[-1].kind == "weights_freed"


def test_best_rows_are_kept_besides_the_recommended_one(later_ledger, store):
    study_id = submit(later_ledger, "first")  # only bln has rows
    run(later_ledger, study_id, [1, 2, 3])
    for number in (1, 2, 3):
        store.write(name(number), b"weights")
    save_recommendation(later_ledger, study_id, "ln")
    files = {trial.arm: trial.checkpoint.file for trial in later_ledger.trials.list_trials(study_id)}
    clean(later_ledger, store, recommended=True, best=1)
    assert names(store) == {files["ln"], files["bln"]}


def test_study_without_recommendation_keeps_all_networks(later_ledger, store):
    unanalysed, without_row, waiting = (
        submit(later_ledger, study_name) for study_name in ("unanalysed", "nothing", "waiting")
    )
    run(later_ledger, unanalysed, [1, 2, 3])
    run(later_ledger, without_row, [4, 5, 6])
    run(later_ledger, waiting, [7], trial_limit=1)
    save_recommendation(later_ledger, without_row, None)
    for number in range(1, 8):
        store.write(name(number), b"weights")
    prunable = {networks.name: networks.reason for networks in later_ledger.pruner.list_prunable(1)}
    assert prunable == {"unanalysed": "it is not analysed yet", "nothing": "no row is recommended: none"}
    assert clean(later_ledger, store, recommended=True)[0] == 0
    assert len(names(store)) == 7


def test_files_of_another_database_are_not_garbage(later_ledger, store):
    assert clean(later_ledger, store) == (0, 0)
    store.write(name(1), b"of another database")
    with pytest.raises(LedgerError, match=r"has no study.*belong together"):
        clean(later_ledger, store)


def test_store_of_two_databases_is_not_cleaned(later_ledger, store, tmp_path):
    submit(later_ledger, "ours")
    later_ledger.checkpoints.claim_store(store)
    store.write(name(1), b"of nobody")
    assert clean(later_ledger, store) == (1, 9)
    other_engine = make_engine(f"sqlite:///{tmp_path / 'other_engine.sqlite3'}")
    write_ownership_marker(store, other_engine.url)
    store.write(name(2), b"of the other database")
    with pytest.raises(LedgerError, match=r"has networks of the database .*other\.sqlite3.*delete \S+ and") as error:
        clean(later_ledger, store)
    assert store.has(name(2))
    store.delete(re.search(r"delete \S+/(\S+) and", str(error.value))[1])
    assert clean(later_ledger, store) == (1, 21)
    later_ledger.checkpoints.claim_store(store)
    assert len(names(store)) == 1


def test_read_only_store_raises_checkpoint_store_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CheckpointStoreError, match=r"cannot be written to: .*Not a directory"):
        write_ownership_marker(Folder(tmp_path / "file" / "kept"), make_engine("sqlite://").url)


def test_spellings_of_a_database_url_share_one_marker(tmp_path, monkeypatch):
    store = Folder(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for url in (f"sqlite:///{tmp_path}/a.sqlite3", "sqlite:///a.sqlite3", "sqlite:///link/a.sqlite3"):
        write_ownership_marker(store, make_engine(url).url)
    assert len(names(store)) == 1
    marker = store.read(*names(store)).decode()
    assert marker.startswith(f"sqlite:///{tmp_path.resolve()}/a.sqlite3\n")
    write_ownership_marker(store, make_engine("postgresql+psycopg://me:secret@host:5433/name?sslmode=require").url)
    write_ownership_marker(store, make_engine("postgresql+psycopg://you:other@host:5433/name").url)
    assert len(names(store)) == 2
    assert not any(b"secret" in store.read(file_name) for file_name in names(store))


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
@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_needed_and_recommended_files_are_never_removed(tmp_path, studies, ages, rounds):
    """Random studies that share files, random ages in days, cleaned several times in several ways."""
    folder = tmp_path / secrets.token_hex(8)
    ledger = open_ledger(f"sqlite:///{folder / 'ledger.sqlite3'}")
    store = Folder(folder / "kept")
    try:
        referenced, recommended = fill(ledger, studies)
        for number, age in enumerate(ages):
            store.write(name(number), b"weights")
            moment = (datetime.now(UTC) - age * DAY).timestamp()
            os.utime(store.path / name(number), (moment, moment))
        young = {name(number) for number, age in enumerate(ages) if age < 0.999}
        old = {name(number) for number, age in enumerate(ages) if age > 1.001}
        for giving, best in rounds:
            before = names(store)
            clean(ledger, store, recommended=giving, best=best)
            present = names(store)
            assert recommended <= present
            assert young <= present
            if not any(recommended_only for recommended_only, _ in rounds):
                assert referenced <= present
                assert not (old - referenced) & present
            with read_session(ledger.database.engine) as session:
                needed = find_needed_files(session).keys()
            assert needed <= present
            assert not (before & old) - needed & present
        for study_record in ledger.studies.list_studies():
            assert len(ledger.trials.list_trials(study_record.id)) == 3  # figures and rows stay
    finally:
        ledger.close()


def fill(ledger, studies):
    """The studies of a random example; the files that are named, and those that are recommended."""
    referenced, recommended = set(), set()
    for number, generated in enumerate(studies):
        study_id = submit(ledger, f"s{number}")
        files = [(generated["files"][0], generated["snapshots"]), *generated["files"][1:]]
        complete = generated["done"] == 3
        run(ledger, study_id, files, trial_limit=None if complete else generated["done"])
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
