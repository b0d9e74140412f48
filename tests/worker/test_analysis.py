"""The analysis of a study: compared rows, recommendation, probes and latencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ProbeKind, Scope, Split
from bln_search.core.errors import DataError
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.executors.local import LocalExecutor
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.sentences.recommendation import (
    class_prior_baseline_warning,
    recommendation_headline,
    recommendation_loss_and_dependence_text,
)
from bln_search.specs import parse_study
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.sections.evaluation import ProbesSpec
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker.analysis import compute_and_store_analysis, get_or_compute_analysis
from bln_search.worker.analysis.study_results import find_class_prior_of_study
from bln_search.worker.loop import QueueWorker
from bln_search.worker.probe_study import probe_networks_of_study

STUDY = """
name: probed
data: {name: digits, fraction: 0.5}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
seeds: [0, 1]
training: {epochs: 4, batch_size: 10}
probes: {batch_sizes: [1, 4, 10], epochs: 2, reshuffles: 2}
"""


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """A study with probes, carried out by a worker."""
    home = tmp_path_factory.mktemp("home")
    ledger = open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    ledger.tokens.create_token("ada", Scope.WRITE)
    environment = ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))
    worker = QueueWorker(ledger, environment, LocalExecutor(environment, 1), cap=2)
    study_id = worker.ledger.queue.submit_study(parse_study(STUDY), "ada").study_id
    worker.run_until_stopped(once=True)
    yield worker, study_id
    ledger.close()


def test_worker_analyses_its_completed_study(analysed):
    worker, study_id = analysed
    analysis = worker.ledger.analyses.find_current_analysis(study_id).analysis
    assert analysis.reason is None
    assert (analysis.comparison.seeds, len(analysis.comparison.rows), analysis.comparison.not_compared) == (2, 16, 0)
    losses = [row.loss for row in analysis.comparison.rows]
    assert losses == sorted(losses)
    assert analysis.recommendation.configuration in [row.configuration for row in analysis.comparison.rows_not_worse]
    assert analysis.selection.ranked_rows == 16
    measured = {(latency.configuration, latency.batch_size) for latency in analysis.latencies}
    assert {size for _, size in measured} == {1, 10}
    assert {code for code, size in measured if size == 10} == {row.configuration for row in analysis.comparison.rows}


@pytest.mark.slow
def test_networks_no_better_than_the_baseline_are_reported(analysed, tmp_path):
    worker, study_id = analysed
    assert worker.ledger.analyses.find_current_analysis(study_id).analysis.no_better_than_class_prior is None
    text = STUDY.replace("epochs: 4,", "epochs: 1, learning_rate: 1.0e-9,").replace("probed", "untrained")
    study = parse_study(text.replace("probes:", "ranking: {split: test}  #"))
    untrained = worker.ledger.queue.submit_study(study, "ada").study_id
    worker.run_until_stopped(once=True)
    analysis = worker.ledger.analyses.find_current_analysis(untrained).analysis
    classes = load_and_prepare_data(study.data, worker.environment.data, worker.environment.cache, "cpu").splits[
        Split.TEST
    ][1]
    check = analysis.no_better_than_class_prior
    assert (check.arms, check.all_arms, check.split) == (("bln",), True, Split.TEST)
    assert check.baseline.loss == pytest.approx(entropy(np.bincount(classes)), rel=1e-12)
    assert check.loss == pytest.approx(analysis.comparison.rows[0].loss, rel=1e-12)
    assert check.loss >= check.baseline.loss
    assert analysis_sentences(analysis)[:2] == [
        class_prior_baseline_warning(check),
        f"{recommendation_headline(analysis.recommendation)} – "
        f"{recommendation_loss_and_dependence_text(analysis.recommendation, 'test loss')}.",
    ]
    without_data = compute_and_store_analysis(worker.ledger, untrained, None, save=False)
    assert without_data.no_better_than_class_prior == check, "a stored result is kept where the data are missing"
    spec = worker.ledger.studies.get(untrained).spec
    missing = spec.model_copy(update={"data": DataSpec(name="mnist", validation=100)})
    assert (
        find_class_prior_of_study(missing, Split.TEST, replace(worker.environment, data=tmp_path, cache=tmp_path))
        is None
    )


def test_stored_analysis_is_not_computed_again(analysed):
    worker, study_id = analysed
    stored = worker.ledger.analyses.find_current_analysis(study_id)
    assert get_or_compute_analysis(worker.ledger, study_id, worker.environment) == stored.analysis
    assert worker.ledger.analyses.find_current_analysis(study_id).made_at == stored.made_at
    assert not worker._claim_and_analyze_study()


def test_every_requested_probe_is_stored(analysed):
    worker, study_id = analysed
    probed = worker.ledger.probes.list_probes(study_id)
    sizes = {row_probe.probe.key.batch_size for row_probe in probed if row_probe.probe.kind is ProbeKind.SIZE}
    epochs = {row_probe.probe.epoch for row_probe in probed if row_probe.probe.kind is ProbeKind.EPOCH}
    assert (sizes, epochs) == ({1, 4, 10}, {2, 4})
    for kind in (ProbeKind.RESHUFFLED, ProbeKind.SKEWED):
        assert len([row_probe for row_probe in probed if row_probe.probe.kind is kind]) == 2 * 16
    assert {row_probe.seed for row_probe in probed} == {0, 1}


def test_probe_of_the_last_epoch_equals_the_checkpoint(analysed):
    """Where the last epoch was kept, its snapshot and the checkpoint are the same network."""
    worker, study_id = analysed
    trials = {trial.seed: trial for trial in worker.ledger.trials.list_finished_full_trials(study_id)}
    probed = [probe for probe in worker.ledger.probes.list_probes(study_id) if probe.probe.key.batch_size == 10]
    compared = 0
    for seed, trial in trials.items():
        assert [snapshot.epoch for snapshot in trial.checkpoint.snapshots] == [2, 4]
        losses = {
            row_probe.probe.key: row_probe.probe.loss
            for row_probe in probed
            if (row_probe.seed, row_probe.probe.kind) == (seed, ProbeKind.SIZE)
        }
        for record in probed:
            if (
                record.seed == seed
                and record.probe.kind is ProbeKind.EPOCH
                and record.probe.epoch == trial.checkpoint.epoch
            ):
                assert record.probe.loss == losses[record.probe.key]
                compared += 1
    assert compared > 0


def test_later_probes_keep_those_of_other_kinds(analysed):
    worker, study_id = analysed
    before = {kind: count(worker, study_id, kind) for kind in ProbeKind}
    progress_lines = []
    measured = probe_networks_of_study(
        worker.ledger, study_id, worker.environment, ProbesSpec(batch_sizes=(40,)), progress_lines.append
    )
    assert len(progress_lines) == 2
    assert measured == count(worker, study_id, ProbeKind.SIZE)
    counts = {kind: count(worker, study_id, kind) for kind in ProbeKind}
    assert {kind: counts[kind] for kind in ProbeKind if kind is not ProbeKind.SIZE} == {
        kind: before[kind] for kind in ProbeKind if kind is not ProbeKind.SIZE
    }


def count(worker, study_id, kind):
    return len([probe for probe in worker.ledger.probes.list_probes(study_id) if probe.probe.kind is kind])


def test_oversized_probe_batch_is_rejected(analysed):
    worker, study_id = analysed
    with pytest.raises(DataError, match="larger than the data"):
        probe_networks_of_study(worker.ledger, study_id, worker.environment, ProbesSpec(batch_sizes=(5000,)), print)


def test_failed_analysis_is_stored_with_its_reason(analysed, monkeypatch):
    worker, study_id = analysed

    def broken(*_, **__):
        raise ValueError("no")

    monkeypatch.setattr("bln_search.worker.analysis.study_analysis.compare_best_ranked_rows", broken)
    assert compute_and_store_analysis(worker.ledger, study_id, None).reason == "ValueError: no"
    assert worker.ledger.analyses.find_current_analysis(study_id).analysis.reason == "ValueError: no"
    monkeypatch.undo()
    assert compute_and_store_analysis(worker.ledger, study_id, None).comparison is not None


@pytest.mark.slow
def test_outcomes_are_read_in_batches(analysed, monkeypatch):
    worker, _ = analysed
    all_outcomes = dict(worker.ledger.results.iter_outcomes(range(1, 40)))
    monkeypatch.setattr("bln_search.storage.results.evaluations._BATCH", 7)
    parts = dict(worker.ledger.results.iter_outcomes(range(1, 40)))
    assert all_outcomes.keys() == parts.keys() != set()
    assert all((all_outcomes[key].losses == parts[key].losses).all() for key in all_outcomes)
