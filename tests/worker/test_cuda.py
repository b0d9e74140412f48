"""Studies on a GPU, with the real driver, ledger and processes, end where they do on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bln_search.core.states import StudyState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

STUDY = """
name: {name}
data: {{name: digits, fraction: 0.2, validation: 200}}
model: {{name: mlp, widths: [32]}}
arms: [{{method: bln}}, {{method: mbn}}]
training: {{epochs: 4}}
seeds: [0, 1, 2]
"""


def find_losses(ledger, environment, name, **options):
    """The loss of every evaluation, and the devices in the provenance of the checkpoints."""
    study_id = ledger.studies.store_study_once(parse_study(STUDY.format(name=name)))
    executor = LocalExecutor(environment, 1, **options)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    losses = {
        (record.seed, record.arm, str(record.evaluation.key)): record.evaluation.loss
        for record in ledger.results.list_clean_evaluations(study_id)
    }
    return losses, {trial.checkpoint.provenance["device"] for trial in ledger.trials.list_trials(study_id)}


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
@pytest.mark.parametrize("options", [{}, {"trials_per_process": 6}])
def test_a_study_ends_where_it_does_on_cpu(ledger, environment, device, options):
    """One trial after another, and as programs, of which that of BLN has recorded steps and that of MBN has not."""
    expected, _ = find_losses(ledger, environment, "on-cpu")
    on_gpu = replace(environment, device=device, cuda_graphs=bool(options))
    losses, devices = find_losses(ledger, on_gpu, "on-gpu", **options)
    assert losses == pytest.approx(expected, rel=1e-3)
    assert devices == {"cuda:0"}
