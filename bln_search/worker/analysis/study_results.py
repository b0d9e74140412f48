"""What an analysis knows of a study besides its losses: looks, class prior, deployed row, per-layer results."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from bln_search.core.class_prior import ClassPriorBaseline, compute_class_prior_baseline
from bln_search.core.enums import Split
from bln_search.core.errors import BlnSearchError
from bln_search.core.records import RowKey
from bln_search.core.tasks import TaskName
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.ranking.looks import level_of_look
from bln_search.ranking.paired.per_layer_results import combine_layer_searches_of_networks, last_ended_search
from bln_search.ranking.per_layer import NetworkLayerSearch, PerLayerResult
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger

_log = logging.getLogger(__name__)


def find_looks_and_level(ledger: Ledger, study: StudyRecord, seeds: int) -> tuple[tuple[int, ...], float]:
    """The numbers of seeds of the looks so far, `seeds` the last one, and the significance level of that one.

    An analysis of as many seeds as an earlier one is the same look. Planned looks have their planned levels unless
    another study has looked at the same trials before.
    """
    looks_by_study = ledger.analyses.list_looks_by_study(study.id)
    plan = {look for look in study.spec.planned_looks if look < seeds}
    earlier = plan | {look for looks in looks_by_study.values() for look in looks if look < seeds}
    others = [look for other, looks in looks_by_study.items() if other != study.id for look in looks if look < seeds]
    is_planned = bool(study.spec.planned_looks) and not others and earlier == plan
    return (*sorted(earlier), seeds), level_of_look(len(earlier), planned=is_planned)


def find_class_prior_of_study(
    study: StudySpec, split: Split, environment: ExecutionEnvironment
) -> ClassPriorBaseline | None:
    """Loss and accuracy of predicting the class frequencies of a split.

    None without the data, and for another task than classification. External results include that of their data.
    """
    if study.external is not None:
        prior = study.external.class_prior
        return None if prior is None else ClassPriorBaseline(prior.loss, prior.accuracy)
    if study.resolved_task.name is not TaskName.CLASSIFICATION:
        return None
    try:
        targets = load_and_prepare_data(study.data, environment.data, environment.cache, "cpu").splits[split][1]
    except BlnSearchError as error:
        _log.info("the class-prior baseline is not known: %s", error)
        return None
    return compute_class_prior_baseline(targets.cpu().bincount().tolist())


def find_deployed_row_of_external_study(study: StudySpec, ranked: Sequence[RowKey]) -> RowKey | None:
    """The first of the ranked rows that is the deployed one, at any mini-batch size; None where there is none."""
    deployed = None if study.external is None else study.external.deployed
    if deployed is None:
        return None
    identity = deployed.configuration, deployed.estimate
    return next((key for key in ranked if (key.configuration, key.estimate) == identity), None)


def compute_per_layer_results_of_study(
    ledger: Ledger, study_id: int, class_prior: ClassPriorBaseline | None
) -> tuple[PerLayerResult, ...]:
    """One result for each arm and point, from the networks whose search has the specification of the latest search.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        class_prior: What predicting the class frequencies reaches on validation; None where it is unknown.
    """
    task = ledger.studies.get(study_id).spec.resolved_task.description
    trials: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for trial in ledger.trials.list_finished_full_trials(study_id):
        trials[trial.arm, trial.point_json].append(trial)
    searches: dict[tuple[str, str], list[NetworkLayerSearch]] = defaultdict(list)
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
            class_prior=class_prior,
        )
        for key, trained in trials.items()
        if key in searches
    )
