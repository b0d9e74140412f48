"""Our rankings of the sixteen configurations compared with the published ones.

`python -m bench.documents.published --save`; for the recurrent network with `--experiment imdb`.

Reads finished studies from the ledger; nothing is trained, and results of studies that are not in the ledger are
kept. For each study and population estimate: the sixteen rows of the arm `bln` on the test split, as in the published
tables, compared with one another over seeds and examples; Kendall's rank correlation with the published order, of the
means and of each seed, and between seeds; the contrasts on which the paper's conclusions rest; the first row of every
seed.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from bench.documents.experiments import EXPERIMENTS, Experiment, finished_study
from bench.reporting import arguments, finish, provenance, read_result
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import LossBySeed, losses_by_row
from bln_search.ranking.leaderboard import rank
from bln_search.ranking.statistics.factorial_effects import factorial_effects
from bln_search.ranking.statistics.intervals import t_interval
from bln_search.settings import load_settings
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.results.evaluations import EvaluationRecord
from bln_search.worker.analysis import compare_study

_BASELINES = {"bn": ("TT--", (PopulationEstimate.MOVING, PopulationEstimate.FROZEN)), "ln": ("--FF", (None,))}


def condition(
    ledger: Ledger, study_id: int, estimate: PopulationEstimate, published: Sequence[str] | None
) -> dict[str, Any]:
    """Compare the rows with a value under one population estimate with the published order, if there is one."""
    study = ledger.studies.get(study_id)
    recorded = ledger.results.list_evaluations(study_id)
    board = rank((one.scored for one in recorded), Split.TEST, seeds=len(study.spec.seeds))
    rows = [row.key for row in board.rows if row.arm == "bln" and row.estimate in (estimate, None) and row.rank]
    found, reason = compare_study(ledger.results, recorded, board, rows)
    if found is None:
        raise SystemExit(f"{study.name}, {estimate}: {reason}")
    losses = losses_by_row((one.scored for one in recorded), Split.TEST)
    by_word = {row.configuration.word: losses[row] for row in rows}
    return {
        "population": estimate.value,
        "seeds": found.seeds,
        "examples": found.examples,
        "rows": [
            {
                "configuration": row.configuration,
                "loss": row.loss,
                "accuracy": row.accuracy,
                "letters": row.letters,
                "ranks": [row.lowest_rank, row.highest_rank],
                "mean_rank": row.mean_rank,
                "first_share": row.first_share,
                "published_rank": published.index(row.configuration) + 1 if published else None,
            }
            for row in found.rows
        ],
        "first_group": [row.configuration for row in found.top_group],
        "pairs_apart": sum(one.is_significant for one in found.pairs),
        "published_order_contradicted": contradicted(found, published) if published else None,
        "kendall": kendall(by_word, published) if published else None,
        "by_seed": by_seed(recorded, rows),
        "effects": [
            {"switches": one.name, "loss": one.loss.mean, "low": one.loss.low, "high": one.loss.high}
            for one in factorial_effects({InferenceConfiguration(word): values for word, values in by_word.items()})
            or []
        ],
        "pair_groups": pair_groups(by_word),
        "friedman": None if found.friedman is None else found.friedman.model_dump(),
    }


def contradicted(found: Comparison, published: Sequence[str]) -> int:
    """Return pairs that differ significantly in the order opposite to the published one."""
    words = [row.configuration for row in found.rows]
    return sum(
        one.is_significant and published.index(words[one.first]) > published.index(words[one.second])
        for one in found.pairs
    )


def kendall(by_word: dict[str, LossBySeed], published: Sequence[str]) -> dict[str, Any]:
    """Return rank correlations with the published order, of the means and of every seed, and between seeds."""
    places = list(range(len(published)))
    seeds = sorted(next(iter(by_word.values())))
    means = [statistics.fmean(by_word[word].values()) for word in published]
    saved = stats.kendalltau(places, means)
    lines = {seed: [by_word[word][seed] for word in published] for seed in seeds}
    each = [float(stats.kendalltau(places, lines[seed]).statistic) for seed in seeds]
    among = [float(stats.kendalltau(lines[a], lines[b]).statistic) for a, b in itertools.combinations(seeds, 2)]
    return {
        "tau": float(saved.statistic),
        "p": float(saved.pvalue),
        "by_seed": each,
        "seeds_mean": statistics.fmean(each),
        "between_seeds_mean": statistics.fmean(among) if among else None,
        "between_seeds_range": [min(among), max(among)] if among else None,
    }


def by_seed(recorded: Sequence[EvaluationRecord], rows: Sequence[RowKey]) -> list[dict[str, Any]]:
    """Return for every seed the row with the lowest test loss, the loss of FFFF, and the highest accuracy."""
    found: dict[int, list[tuple[float, float, str]]] = {}
    for one in recorded:
        scored, key = one.scored, one.scored.evaluation.key
        loss, accuracy = scored.evaluation.loss, scored.evaluation.accuracy
        row = RowKey.of(scored.arm, scored.point, key)
        if key.split is Split.TEST and row in rows and loss is not None and accuracy is not None:
            found.setdefault(scored.seed, []).append((loss, accuracy, key.configuration.word))
    answer = []
    for seed, each in sorted(found.items()):
        loss, accuracy, word = min(each)
        own = next(one for one in each if one[2] == "FFFF")
        answer.append(
            {
                "seed": seed,
                "first": word,
                "loss": loss,
                "accuracy": accuracy,
                "highest_accuracy": max(one[1] for one in each),
                "mini_batch_loss": own[0],
                "mini_batch_accuracy": own[1],
            }
        )
    return answer


def pair_groups(by_word: dict[str, LossBySeed]) -> dict[str, Any]:
    """Return the mean loss of the four rows with the same mini-batch switches (E_B, Std_B), with its interval."""
    found = {}
    for start in ("TT", "FT", "FF", "TF"):
        words = [word for word in by_word if word.startswith(start)]
        if not words:
            continue
        means = [statistics.fmean(by_word[word][seed] for word in words) for seed in by_word[words[0]]]
        one = t_interval(means)
        found[start] = {"loss": one.mean, "low": one.low, "high": one.high}
    return found


def against_baselines(ledger: Ledger, study_id: int) -> dict[str, Any]:
    """Return test results of each arm's best row on validation, and BLN's difference to the others, by seed."""
    study = ledger.studies.get(study_id)
    board = ledger.results.rank_study(study_id, study.spec, on=Split.VALIDATION)
    scored = ledger.results.list_scored(study_id)
    losses = losses_by_row(scored, Split.TEST)
    best = next(row for row in board.rows if row.arm == "bln" and row.rank)
    usual = {"bln": best}
    for arm, (word, estimates) in _BASELINES.items():
        found = [
            row
            for row in board.rows
            if row.arm == arm and row.configuration.word == word and row.estimate in estimates and row.rank
        ]
        if found:
            usual[arm] = found[0]
    answer: dict[str, Any] = {}
    for arm, row in usual.items():
        figures = row.metrics[Split.TEST]
        answer[arm] = {
            "configuration": row.configuration.word,
            "population": row.estimate.value if row.estimate else None,
            "test_loss": figures.loss.mean,
            "test_accuracy": figures.accuracy.mean,
            "test_accuracy_deviation": figures.accuracy.deviation,
        }
        if arm != "bln":
            ours, theirs = losses[best.key], losses[row.key]
            difference = t_interval([ours[seed] - theirs[seed] for seed in sorted(ours)])
            answer[arm]["bln_less_this"] = [difference.mean, difference.low, difference.high]
    return answer


def study_result(ledger: Ledger, name: str, experiment: Experiment) -> dict[str, Any] | None:
    """Return the comparison for every population estimate of a study; None if it is not finished."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    size = experiment.studies[name]
    order = None if size is None else experiment.published[size]
    return {
        "published": size and f"{experiment.table}, {'20 %' if size == '20pct' else 'all'} of the training set",
        "seeds": len(study.spec.seeds),
        "conditions": [condition(ledger, study.id, estimate, order) for estimate in study.spec.evaluation.population],
        "baselines": against_baselines(ledger, study.id),
    }


def with_earlier(found: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    """Keep studies of the result file that are not in this ledger; each has its own provenance."""
    earlier = read_result(experiment.result) or {"result": {}, "provenance": None}
    kept = {name: {"provenance": earlier["provenance"], **one} for name, one in earlier["result"].items()}
    fresh = {name: {"provenance": provenance(), **one} for name, one in found.items()}
    both = {**kept, **fresh}
    return {name: both[name] for name in experiment.studies if name in both}


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--database", help="database URL")
    parser.add_argument("--experiment", choices=EXPERIMENTS, default="cifar10")
    options = parser.parse_args()
    ledger = open_ledger(options.database or load_settings().database_url)
    experiment = EXPERIMENTS[options.experiment]
    found = {name: study_result(ledger, name, experiment) for name in experiment.studies}
    result = {name: one for name, one in found.items() if one is not None}
    for name, one in result.items():
        for each in one["conditions"]:
            kept = each["kendall"]
            tau = f"tau {kept['tau']:.2f}, by seed {np.mean(kept['by_seed']):.2f}" if kept else "no published order"
            print(f"{name} {each['population']}: {tau}")
            for row in each["rows"]:
                print(
                    f"  {row['configuration']} {row['loss']:.4f} {row['accuracy']:.4f} {row['letters']:8s}"
                    f" {row['ranks'][0]}-{row['ranks'][1]} published {row['published_rank']}"
                )
    finish(experiment.result, with_earlier(result, experiment), save=options.save)


if __name__ == "__main__":
    main()
