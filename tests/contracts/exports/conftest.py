"""A complete study, whose rows can be exported."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents
from bln_search.core.exports import ExportKey, StoredArchive
from bln_search.core.records import RowKey
from tests.support.service_world import complete_study

WEEK = timedelta(days=7)


def row_key(code="TTFF", estimate="frozen", arm="bln"):
    return RowKey(arm, "", InferenceConfiguration(code), estimate, 25)


def stored(number=1, size=10):
    digest = f"{number:064x}"
    return StoredArchive(f"{digest[-32:]}.zip", size, digest)


def everybody_is_alive(_worker):
    return True


@pytest.fixture
def exports(ledger, wait):
    """Requests and jobs of one study of two seeds, in short."""
    study_id = complete_study(ledger, "done", "ada", seeds=(3, 4))
    trials = {trial.seed: trial.id for trial in ledger.trials.list_trials(study_id)}

    def request(archive_format=ArchiveContents.ALL, row=None, seed=3, account="ada", **options):
        key = ExportKey(trials[seed], row or row_key(), archive_format)
        return ledger.exports.request_export(study_id, key, account, **{"keep": WEEK, **options})

    def claim(worker="host/1/0", is_alive=everybody_is_alive):
        return ledger.export_jobs.claim_next_export(worker, is_alive)

    def build(number=1, size=10, **options):
        requested = request(**options)
        claimed = claim()
        assert claimed.id == requested.id
        ledger.export_jobs.finish_export(claimed.running_attempt_key, stored(number, size), WEEK)
        return find(claimed)

    def find(record):
        return ledger.exports.find_export(study_id, record.id)

    return SimpleNamespace(
        study_id=study_id,
        trials=trials,
        jobs=ledger.export_jobs,
        request=request,
        claim=claim,
        build=build,
        find=find,
        wait=wait,
    )
