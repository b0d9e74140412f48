"""Records of the layers are read from the provenance of the checkpoints, by arm and point, then by seed."""

from __future__ import annotations

from dataclasses import asdict, replace

from bln_search.core.records import DRIFT, GEOMETRY, LayerWeightNormAndCurvature, StatisticDrift
from tests.contracts.trained_studies import CHECKPOINT, STUDY, evaluations

LAYERS = [LayerWeightNormAndCurvature(epoch, "0", 1.5, None, 0.25, 0.5, 0.0, None) for epoch in (1, 2)]
DRIFTS = [StatisticDrift("0", "E_B", "frozen", 0.1, None)]


def finish(ledger, trial, provenance):
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_checkpoint(token, replace(CHECKPOINT, provenance=provenance))
    ledger.attempts.finish_trial(token, evaluations())


def test_geometry_and_drift_of_networks_that_have_them(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    records = {GEOMETRY: [asdict(layer) for layer in LAYERS], DRIFT: [asdict(drift) for drift in DRIFTS]}
    trials = ledger.trials.list_claimable_trials(study_id)
    for trial in trials[:3]:
        finish(ledger, trial, records)
    finish(ledger, trials[3], {"torch": "2"})
    measured = {(trial.spec.arm.label, trial.spec.seed) for trial in trials[:3]}
    geometries = ledger.results.read_layer_geometries_by_arm_and_point(study_id)
    found = {(arm, seed): layers for (arm, point), by_seed in geometries.items() for seed, layers in by_seed.items()}
    assert found == dict.fromkeys(measured, LAYERS)
    assert {point for _, point in geometries} == {""}
    drifts = ledger.results.read_layer_drifts_by_seed(study_id, trials[0].spec.arm.label, "")
    assert drifts[trials[0].spec.seed] == DRIFTS
    stored = ledger.trials.list_finished_full_trials(study_id)[0].get_checkpoint_record()
    assert not {GEOMETRY, DRIFT} & set(stored.provenance)
