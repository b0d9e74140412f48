"""Combines the per-layer searches of a study's networks by arm and point."""

from __future__ import annotations

from collections import defaultdict

from bln_search.ranking.paired.per_layer_results import latest, per_layer_result
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.layer_searches import StoredLayerSearch


def list_layer_results(ledger: Ledger, study_id: int) -> tuple[PerLayerResult, ...]:
    """One result for each arm and point, from the networks that were searched like the latest search of it."""
    trials: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for trial in ledger.trials.list_trained(study_id):
        trials[trial.arm, trial.point].append(trial)
    searches: dict[tuple[str, str], list[StoredLayerSearch]] = defaultdict(list)
    for search in ledger.layer_searches.iterate(study_id):
        searches[search.arm, search.point].append(search)
    return tuple(
        per_layer_result(
            searches[key],
            batch_size=of_key[-1].spec.training.batch_size,
            estimate=latest(searches[key]).spec.estimate or of_key[-1].spec.estimates[0],
            seeds=[trial.seed for trial in of_key],
        )
        for key, of_key in trials.items()
        if key in searches
    )
