"""Combines the per-layer searches of a study's networks by arm and point."""

from __future__ import annotations

from collections import defaultdict

from bln_search.ranking.paired.per_layer_results import combine_layer_searches_of_networks, last_ended_search
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.layer_searches import StoredLayerSearch


def compute_per_layer_results_of_study(ledger: Ledger, study_id: int) -> tuple[PerLayerResult, ...]:
    """One result for each arm and point, from the networks whose search has the specification of the latest search."""
    task = ledger.studies.get(study_id).spec.resolved_task.description
    trials: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for trial in ledger.trials.list_finished_full_trials(study_id):
        trials[trial.arm, trial.point_json].append(trial)
    searches: dict[tuple[str, str], list[StoredLayerSearch]] = defaultdict(list)
    for search in ledger.layer_searches.iter_finished_searches(study_id):
        searches[search.arm, search.point].append(search)
    return tuple(
        combine_layer_searches_of_networks(
            searches[key],
            batch_size=trained[-1].spec.training.batch_size,
            estimate=last_ended_search(searches[key]).spec.estimate or trained[-1].spec.population_estimates[0],
            seeds=[trial.seed for trial in trained],
            loss=task.loss,
            has_accuracy=task.has_accuracy,
        )
        for key, trained in trials.items()
        if key in searches
    )
