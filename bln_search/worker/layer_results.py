"""The searched networks of a study put together, arm by arm and point by point."""

from __future__ import annotations

from collections import defaultdict

from bln_search.ranking.paired.per_layer_tests import latest, layer_result
from bln_search.ranking.per_layer import LayerResult
from bln_search.storage.layers import StoredLayerSearch, layer_searches
from bln_search.storage.ledger import Ledger
from bln_search.storage.trained import trained_trials


def layer_results(ledger: Ledger, study_id: int) -> tuple[LayerResult, ...]:
    """One for each arm and point, of the networks that were searched in the way of the latest search of it."""
    trained = trained_trials(ledger.engine, study_id)
    batch_size = {(one.arm, one.point): one.spec.training.batch_size for one in trained}
    estimates = {(one.arm, one.point): one.spec.estimates[0] for one in trained}
    seeds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in trained:
        seeds[one.arm, one.point].append(one.seed)
    stored: dict[tuple[str, str], list[StoredLayerSearch]] = defaultdict(list)
    for search in layer_searches(ledger.engine, study_id):
        stored[search.arm, search.point].append(search)
    return tuple(
        layer_result(
            stored[place],
            batch_size=batch_size[place],
            estimate=latest(stored[place]).spec.estimate or estimates[place],
            seeds=seeds[place],
        )
        for place in seeds
        if place in stored
    )
