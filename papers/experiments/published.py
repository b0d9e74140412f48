"""Our rankings of the sixteen configurations compared with the published ones.

For each study and population estimate: the sixteen rows of the arm `bln` on the test split, as in the published
tables, compared with one another over seeds and examples; Kendall's rank correlation with the published order, of the
means and of each seed, and between seeds; the effects on which the paper's conclusions rest; the first row of every
seed.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from scipy import stats

from bench.support.reporting import provenance, read_result
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import RowKey
from bln_search.ranking.grouping import LossBySeed, group_losses_by_row
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.statistics.factorial_effects import compute_factorial_effects
from bln_search.ranking.statistics.intervals import mean_with_t_interval
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.evaluations import EvaluationRecord
from bln_search.worker.analysis import compare_best_ranked_rows
from papers.experiments.bln import Experiment

_BASELINES = {"bn": ("TT--", (PopulationEstimate.MOVING, PopulationEstimate.FROZEN)), "ln": ("--FF", (None,))}


def compare_condition(
    ledger: Ledger, study_id: int, estimate: PopulationEstimate, published: Sequence[str] | None
) -> dict[str, Any]:
    """Compare the rows with a value under one population estimate with the published order, if there is one."""
    study = ledger.studies.get(study_id)
    records = ledger.results.list_clean_evaluations(study_id)
    board = build_leaderboard_from_evaluations(
        (record.as_trial_evaluation for record in records), Split.TEST, seeds=study.spec.ranked_seeds
    )
    rows = [row.key for row in board.rows if row.arm == "bln" and row.estimate in (estimate, None) and row.rank]
    comparison, reason = compare_best_ranked_rows(ledger.results, records, board, rows)
    if comparison is None:
        raise SystemExit(f"{study.name}, {estimate}: {reason}")
    losses = group_losses_by_row((record.as_trial_evaluation for record in records), Split.TEST)
    by_configuration = {row.configuration.code: losses[row] for row in rows}
    return {
        "population": str(estimate),
        "seeds": comparison.seeds,
        "examples": comparison.examples,
        "rows": [
            {
                "configuration": row.configuration,
                "loss": row.loss,
                "accuracy": row.accuracy,
                "verdict": row.verdict,
                "first_share": row.first_share,
                "published_rank": published.index(row.configuration) + 1 if published else None,
            }
            for row in comparison.rows
        ],
        "first_group": [row.configuration for row in comparison.rows_not_worse],
        "kendall": rank_correlations(by_configuration, published) if published else None,
        "by_seed": by_seed(records, rows),
        "effects": [
            {
                "switches": effect.name,
                "loss": effect.size.mean,
                "low": effect.size.low,
                "high": effect.size.high,
            }
            for effect in compute_factorial_effects(
                {InferenceConfiguration(code): values for code, values in by_configuration.items()}
            )
            or []
        ],
    }


def rank_correlations(by_configuration: dict[str, LossBySeed], published: Sequence[str]) -> dict[str, Any]:
    """Return rank correlations with the published order, of the means and of every seed, and between seeds."""
    ranks = list(range(len(published)))
    seeds = sorted(next(iter(by_configuration.values())))
    means = [statistics.fmean(by_configuration[code].values()) for code in published]
    of_means = stats.kendalltau(ranks, means)
    losses_by_seed = {seed: [by_configuration[code][seed] for code in published] for seed in seeds}
    by_seed = [float(stats.kendalltau(ranks, losses_by_seed[seed]).statistic) for seed in seeds]
    between_seeds = [
        float(stats.kendalltau(losses_by_seed[a], losses_by_seed[b]).statistic)
        for a, b in itertools.combinations(seeds, 2)
    ]
    return {
        "tau": float(of_means.statistic),
        "p": float(of_means.pvalue),
        "by_seed": by_seed,
        "seeds_mean": statistics.fmean(by_seed),
        "between_seeds_mean": statistics.fmean(between_seeds) if between_seeds else None,
        "between_seeds_range": [min(between_seeds), max(between_seeds)] if between_seeds else None,
    }


def by_seed(records: Sequence[EvaluationRecord], rows: Sequence[RowKey]) -> list[dict[str, Any]]:
    """Return for every seed the row with the lowest test loss, the loss of FFFF, and the highest accuracy."""
    results_by_seed: dict[int, list[tuple[float, float, str]]] = {}
    for record in records:
        scored, key = record.as_trial_evaluation, record.as_trial_evaluation.evaluation.key
        loss, accuracy = scored.evaluation.loss, scored.evaluation.accuracy
        row = RowKey.of_evaluation(scored.arm, scored.point, key)
        if key.split is Split.TEST and row in rows and loss is not None and accuracy is not None:
            results_by_seed.setdefault(scored.seed, []).append((loss, accuracy, key.configuration.code))
    first_rows = []
    for seed, results in sorted(results_by_seed.items()):
        loss, accuracy, configuration = min(results)
        mini_batch_row = next(record for record in results if record[2] == "FFFF")
        first_rows.append(
            {
                "seed": seed,
                "first": configuration,
                "loss": loss,
                "accuracy": accuracy,
                "highest_accuracy": max(record[1] for record in results),
                "mini_batch_loss": mini_batch_row[0],
                "mini_batch_accuracy": mini_batch_row[1],
            }
        )
    return first_rows


def compare_with_baselines(ledger: Ledger, study_id: int) -> dict[str, Any]:
    """Return test results of each arm's best row on validation, and BLN's difference to the others, by seed."""
    study = ledger.studies.get(study_id)
    board = ledger.results.rank_rows_of_study(study_id, study.spec, on=Split.VALIDATION)
    scored = ledger.results.list_evaluations_for_ranking(study_id)
    losses = group_losses_by_row(scored, Split.TEST)
    best = next(row for row in board.rows if row.arm == "bln" and row.rank)
    usual = {"bln": best}
    for arm, (code, estimates) in _BASELINES.items():
        matching = [
            row
            for row in board.rows
            if row.arm == arm and row.configuration.code == code and row.estimate in estimates and row.rank
        ]
        if matching:
            usual[arm] = matching[0]
    results: dict[str, Any] = {}
    for arm, row in usual.items():
        figures = row.metrics[Split.TEST]
        assert figures.accuracy is not None, "its score is cross-entropy"
        results[arm] = {
            "configuration": row.configuration.code,
            "population": str(row.estimate) if row.estimate else None,
            "test_loss": figures.loss.mean,
            "test_accuracy": figures.accuracy.mean,
            "test_accuracy_deviation": figures.accuracy.deviation,
        }
        if arm != "bln":
            ours, theirs = losses[best.key], losses[row.key]
            difference = mean_with_t_interval([ours[seed] - theirs[seed] for seed in sorted(ours)])
            results[arm]["bln_less_this"] = [difference.mean, difference.low, difference.high]
    return results


def collect_comparison(ledger: Ledger, study: StudyRecord, experiment: Experiment) -> dict[str, Any]:
    """Return the comparison for every population estimate of a study."""
    size = experiment.studies[study.name]
    order = None if size is None else experiment.published[size]
    return {
        "published": size and f"{experiment.table}, {'20 %' if size == '20pct' else 'all'} of the training set",
        "seeds": len(study.spec.all_seeds),
        "conditions": [
            compare_condition(ledger, study.id, estimate, order) for estimate in study.spec.evaluation.population
        ],
        "baselines": compare_with_baselines(ledger, study.id),
    }


def merge_into_result(name: str, measured: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    """Return the result file of an experiment with the comparison of a study; each has its own provenance."""
    earlier = read_result(experiment.result) or {"result": {}, "provenance": None}
    studies = {study: {"provenance": earlier["provenance"], **result} for study, result in earlier["result"].items()}
    studies[name] = {"provenance": provenance(), **measured}
    result = {study: studies[study] for study in experiment.studies if study in studies}
    return {"benchmark": experiment.result, "result": result, "provenance": provenance()}
