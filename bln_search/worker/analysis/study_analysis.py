"""Computes the analysis of a study from its results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.records import RowKey
from bln_search.core.states import StudyState
from bln_search.execution.devices import choose_first_device_name
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.leaderboard import Leaderboard, build_leaderboard_from_evaluations
from bln_search.ranking.probe_results import TrialProbe
from bln_search.ranking.selection.baseline_check import find_arms_no_better_than_prior
from bln_search.ranking.selection.recommendation import Recommendation, recommend_row
from bln_search.ranking.selection.selected_row import find_selected_row_performance
from bln_search.ranking.stream_results import StudyStreams
from bln_search.ranking.study_effects import (
    compute_effects_of_each_setting,
    compute_variance_shares,
    group_values_by_split_and_metric,
)
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.worker.analysis.comparison import compare_best_ranked_rows
from bln_search.worker.analysis.condition_comparison import ComparisonOverConditions, compare_rows_over_conditions
from bln_search.worker.analysis.failures import capture_failure
from bln_search.worker.analysis.latencies import measure_latencies_of_recommended_network
from bln_search.worker.analysis.streams import rank_streams_of_study
from bln_search.worker.analysis.study_results import (
    compute_per_layer_results_of_study,
    find_class_prior_of_study,
    find_deployed_row_of_external_study,
    find_looks_and_level,
)
from bln_search.worker.layer_search import search_layers_of_study
from bln_search.worker.study_code import check_code_of_study

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnalysisLayerSearchOptions:
    """Options of the per-layer search within an analysis.

    Attributes:
        on_progress: Called with a line about the progress of the search.
        max_workers: Networks that are searched in parallel; None lets the search choose.
        should_stop: Whether to stop now; the search resumes another time.
    """

    on_progress: Callable[[str], None] = _log.info
    max_workers: int | None = None
    should_stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class LayerSearchStatus:
    """The outcome of a per-layer search. failure_reason: why networks were not searched; None where all were."""

    failure_reason: str | None = None


def get_or_compute_analysis(
    ledger: Ledger, study_id: int, environment: ExecutionEnvironment, options: AnalysisLayerSearchOptions | None = None
) -> Analysis:
    """The analysis of the present results; where there is none, that of `compute_and_store_analysis`."""
    stored = ledger.analyses.find_current_analysis(study_id)
    return stored.analysis if stored is not None else compute_and_store_analysis(ledger, study_id, environment, options)


def compute_and_store_analysis(
    ledger: Ledger,
    study_id: int,
    environment: ExecutionEnvironment | None,
    options: AnalysisLayerSearchOptions | None = None,
    *,
    save: bool = True,
    layer_search: LayerSearchStatus | None = None,
) -> Analysis:
    """Compute the analysis of a study's present results, and store it where the study is complete.

    An error in the results is the reason of the analysis instead of an exception.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        environment: Where latencies are measured and, if the study asks for it, layers are searched; None keeps the
            stored latencies and per-layer results.
        options: Options of the per-layer search.
        save: Whether to store the analysis.
        layer_search: The outcome of a search that ran just before; None if none ran.

    Raises:
        UnknownStudyError: there is no such study.
        LedgerError, StorageFullError, CheckpointStoreError: the database, the disk or the checkpoint store failed.
        SearchStoppedError: `options.should_stop` ended the per-layer search, which resumes another time.
    """
    results = ledger.analyses.count_trials_with_result(study_id)
    study = ledger.studies.get(study_id)
    analysis = Analysis()
    with capture_failure(study_id, "analysed") as failure:
        if environment is not None:
            environment = replace(environment, device=choose_first_device_name(environment.device))
            layer_search = _search_layers_if_requested(
                ledger, study, environment, options or AnalysisLayerSearchOptions()
            )
        analysis = _analyze_without_layer_search(ledger, study, environment)
        if layer_search is not None:
            analysis = analysis.model_copy(update={"layers_reason": layer_search.failure_reason})
    if failure.reason is not None:
        analysis = Analysis(reason=failure.reason)
    if study.spec.stream is not None:
        analysis = analysis.model_copy(update={"streams": _rank_streams(ledger, study)})
    if analysis.comparison is None:  # earlier looks stay spent
        looks = ledger.analyses.list_looks_by_study(study_id).get(study_id, ())
        analysis = analysis.model_copy(update={"looks": looks})
    if save and study.state is StudyState.COMPLETE:
        ledger.analyses.save(study_id, results, analysis)
    return analysis


def compute_analysis_of_look(ledger: Ledger, study_id: int, seeds: int) -> Analysis:
    """The analysis of a study after a planned number of seeds, without latencies; raises as the above."""
    with capture_failure(study_id, "analysed") as failure:
        return _analyze_without_layer_search(ledger, ledger.studies.get(study_id), None, seeds)
    return Analysis(reason=failure.reason, looks=ledger.analyses.list_looks_by_study(study_id).get(study_id, ()))


def _rank_streams(ledger: Ledger, study: StudyRecord) -> StudyStreams:
    with capture_failure(study.id, "ranked by its streams") as failure:
        return rank_streams_of_study(ledger, study)
    return StudyStreams(reason=failure.reason)


def _search_layers_if_requested(
    ledger: Ledger, study: StudyRecord, environment: ExecutionEnvironment, options: AnalysisLayerSearchOptions
) -> LayerSearchStatus:
    layers = study.spec.layers
    if layers is None or study.state is not StudyState.COMPLETE:
        return LayerSearchStatus()
    with capture_failure(study.id, "searched for per-layer configurations") as failure:
        search_layers_of_study(
            ledger,
            study.id,
            environment,
            layers,
            options.on_progress,
            max_workers=options.max_workers,
            should_stop=options.should_stop,
        )
    return LayerSearchStatus(failure.reason)


def _analyze_without_layer_search(
    ledger: Ledger, study: StudyRecord, environment: ExecutionEnvironment | None, seeds: int | None = None
) -> Analysis:
    """seeds: number of seeds of the look at an incomplete study; None for all results."""
    records = [
        record for record in ledger.results.list_clean_evaluations(study.id) if seeds is None or record.seed < seeds
    ]
    board = build_leaderboard_from_evaluations(
        (record.as_trial_evaluation for record in records),
        study.spec.ranking.split,
        seeds=seeds or study.spec.ranked_seeds,
    )
    looks, level = find_looks_and_level(ledger, study, 0 if board.best_row is None else board.best_row.seeds)
    deployed = find_deployed_row_of_external_study(study.spec, [row.key for row in board.rows if row.rank is not None])
    stored = ledger.analyses.find_current_analysis(study.id) if environment is None else None
    earlier = Analysis() if stored is None else stored.analysis
    prior = (
        earlier.class_prior
        if environment is None
        else find_class_prior_of_study(study.spec, board.ranked_on, environment)
    )
    over = compare_rows_over_conditions(ledger.results, study, board, deployed, level, prior, seeds)
    comparison, reason = (
        (over.comparison, None)
        if over.comparison
        else compare_best_ranked_rows(
            ledger.results,
            records,
            board,
            current=deployed,
            margin=study.spec.ranking.practical,
            level=level,
            per_slot=study.spec.has_populations_per_slot,
        )
    )
    baseline_check = find_arms_no_better_than_prior(board, prior)
    prior_of_layers = prior if board.ranked_on is Split.VALIDATION else None
    layers = compute_per_layer_results_of_study(ledger, study.id, prior_of_layers)
    if comparison is None:
        return Analysis(
            selection=find_selected_row_performance(board),
            class_prior=prior,
            no_better_than_class_prior=baseline_check,
            layers=layers,
            layers_reason=earlier.layers_reason,
            reason=reason,
        )
    probes = [] if comparison.over else ledger.probes.list_probes(study.id, kinds=[ProbeKind.SIZE])  # of clean images
    recommendation = recommend_row(
        comparison,
        _group_probe_losses_by_batch_size(probes),
        per_slot=study.spec.has_populations_per_slot,
        class_prior=None if comparison.over else prior,  # over conditions, other rows are not compared
    )
    if comparison.over:
        recommendation = _complete_recommendation(recommendation, board, over)
    arms = {(row.arm, row.point) for row in comparison.rows}
    values = group_values_by_split_and_metric((record.as_trial_evaluation for record in records), arms)
    latency_source = (
        earlier
        if environment is None or study.spec.external is not None
        else _try_to_measure_latencies(ledger, study, recommendation, environment)
    )
    return Analysis(
        comparison=comparison,
        conditions_reason=over.reason,
        selection=find_selected_row_performance(board),
        recommendation=recommendation,
        class_prior=prior,
        no_better_than_class_prior=baseline_check,
        effects=compute_effects_of_each_setting(values),
        shares=compute_variance_shares(values),
        latencies=latency_source.latencies,
        device=latency_source.device,
        threads=latency_source.threads,
        layers=layers,
        layers_reason=earlier.layers_reason,
        looks=looks,
        is_provisional=study.state is not StudyState.COMPLETE,
    )


def _complete_recommendation(
    recommendation: Recommendation, board: Leaderboard, over: ComparisonOverConditions
) -> Recommendation:
    """The recommendation over conditions with the loss that ranks the leaderboard, and what was not compared."""
    losses = {row.key: row.metrics[board.ranked_on].loss.mean for row in board.rows if row.rank is not None}
    loss = losses[recommendation.key]
    update = {"ranking_loss": loss, "ranking_loss_above_best": loss - min(losses.values())}
    return recommendation.model_copy(update=update | {"excluded_rows": over.excluded_rows, "basis": over.basis})


def _try_to_measure_latencies(
    ledger: Ledger, study: StudyRecord, recommendation: Recommendation, environment: ExecutionEnvironment
) -> Analysis:
    with capture_failure(study.id, "timed", transient=(CheckpointStoreError,)):
        check_code_of_study(ledger, study)
        latencies = measure_latencies_of_recommended_network(ledger, study.id, recommendation, environment)
        if latencies:
            return Analysis(latencies=latencies, device=environment.device, threads=environment.threads)
    return Analysis()


def _group_probe_losses_by_batch_size(probes: Sequence[TrialProbe]) -> dict[int, dict[RowKey, LossBySeed]]:
    losses: dict[int, dict[RowKey, LossBySeed]] = {}
    for trial_probe in probes:
        by_row = losses.setdefault(trial_probe.probe.key.batch_size, {})
        by_row.setdefault(trial_probe.row_key, {})[trial_probe.seed] = trial_probe.probe.loss
    return losses
