"""Combines the per-layer searches of a study's networks by arm and point."""

from __future__ import annotations

from collections import defaultdict

from bln_search.ranking.paired.per_layer_results import latest_search, per_layer_result
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.layer_searches import StoredLayerSearch


def list_layer_results(ledger: Ledger, study_id: int) -> tuple[PerLayerResult, ...]:
    """One result for each arm and point, from the networks whose search has the specification of the latest search."""
    trials: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for trial in ledger.trials.list_finished(study_id):
        trials[trial.arm, trial.point_json].append(trial)
    searches: dict[tuple[str, str], list[StoredLayerSearch]] = defaultdict(list)
    for search in ledger.layer_searches.iterate(study_id):
        searches[search.arm, search.point].append(search)
    return tuple(
        per_layer_result(
            searches[key],
            batch_size=trained[-1].spec.training.batch_size,
            estimate=latest_search(searches[key]).spec.estimate or trained[-1].spec.estimates[0],
            seeds=[trial.seed for trial in trained],
        )
        for key, trained in trials.items()
        if key in searches
    )
