"""Our rankings of the sixteen configurations beside the published ones: `python -m bench.published --save`.

Reads finished studies out of the ledger; nothing is trained. For each study and population estimate: the sixteen rows
of the arm `bln` on the test split, as the published tables have them, compared with one another over seeds and
examples; Kendall's rank correlation with the published order, of the means and of each seed, and of seeds among
themselves; the contrasts on which the paper's conclusions rest.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from bench.reporting import arguments, finish
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import UnknownStudyError
from bln_search.core.words import PopulationEstimate, Split
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.effects import effects
from bln_search.ranking.groups import Losses, losses_by_candidate
from bln_search.ranking.interval import interval_of
from bln_search.ranking.leaderboard import rank
from bln_search.settings import load_settings
from bln_search.storage.board import study_leaderboard
from bln_search.storage.evaluations import evaluations, scores
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.worker.analysis import study_comparison

PUBLISHED = {
    "20pct": (
        "TTFF",
        "TTFT",
        "TTTT",
        "TTTF",
        "FFFT",
        "FFFF",
        "FFTT",
        "FFTF",
        "FTFT",
        "FTFF",
        "FTTT",
        "FTTF",
        "TFTF",
        "TFTT",
        "TFFT",
        "TFFF",
    ),
    "full": (
        "FTFF",
        "FTFT",
        "FTTT",
        "FTTF",
        "FFFF",
        "FFFT",
        "FFTT",
        "FFTF",
        "TTFT",
        "TTFF",
        "TTTT",
        "TTTF",
        "TFTF",
        "TFTT",
        "TFFT",
        "TFFF",
    ),
}
"""Table 1 of Ziaee & Çano 2022, batch size 25, best first: one seed, ranked on test."""

STUDIES = {
    "bln_cifar10_20pct_b25_reference": "20pct",
    "bln_cifar10_20pct_b25": "20pct",
    "bln_cifar10_full_b25_reference": "full",
    "bln_cifar10_full_b25": "full",
}
_BASELINES = {"bn": ("TT--", (PopulationEstimate.MOVING, PopulationEstimate.FROZEN)), "ln": ("--FF", (None,))}


def condition(ledger: Ledger, study_id: int, estimate: PopulationEstimate, published: Sequence[str]) -> dict[str, Any]:
    """The sixteen rows under one population estimate."""
    study = ledger.study(study_id)
    recorded = evaluations(ledger.engine, study_id)
    board = rank((one.scored for one in recorded), Split.TEST, seeds=len(study.spec.seeds))
    rows = [row.candidate for row in board.rows if row.arm == "bln" and row.estimate in (estimate, None)]
    found, reason = study_comparison(ledger.engine, recorded, board, rows)
    if found is None:
        raise SystemExit(f"{study.name}, {estimate}: {reason}")
    losses = losses_by_candidate((one.scored for one in recorded), Split.TEST)
    by_word = {candidate[2].word: losses[candidate] for candidate in rows}
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
                "published_rank": published.index(row.configuration) + 1,
            }
            for row in found.rows
        ],
        "first_group": [row.configuration for row in found.sharing_first],
        "pairs_apart": sum(one.apart for one in found.pairs),
        "published_order_contradicted": contradicted(found, published),
        "kendall": kendall(by_word, published),
        "effects": [
            {"switches": one.name, "loss": one.loss.mean, "low": one.loss.low, "high": one.loss.high}
            for one in effects({InferenceConfiguration(word): values for word, values in by_word.items()}) or []
        ],
        "pair_groups": pair_groups(by_word),
        "friedman": None if found.friedman is None else found.friedman.model_dump(),
    }


def contradicted(found: Comparison, published: Sequence[str]) -> int:
    """Pairs that are told apart here in the order opposite to the published one."""
    words = [row.configuration for row in found.rows]
    return sum(
        one.apart and published.index(words[one.first]) > published.index(words[one.second]) for one in found.pairs
    )


def kendall(by_word: dict[str, Losses], published: Sequence[str]) -> dict[str, Any]:
    """Rank correlation with the published order: of the means, of every seed; and of every two seeds."""
    places = list(range(len(published)))
    seeds = sorted(next(iter(by_word.values())))
    means = [statistics.fmean(by_word[word].values()) for word in published]
    whole = stats.kendalltau(places, means)
    lines = {seed: [by_word[word][seed] for word in published] for seed in seeds}
    each = [float(stats.kendalltau(places, lines[seed]).statistic) for seed in seeds]
    among = [float(stats.kendalltau(lines[a], lines[b]).statistic) for a, b in itertools.combinations(seeds, 2)]
    return {
        "tau": float(whole.statistic),
        "p": float(whole.pvalue),
        "by_seed": each,
        "seeds_mean": statistics.fmean(each),
        "between_seeds_mean": statistics.fmean(among) if among else None,
        "between_seeds_range": [min(among), max(among)] if among else None,
    }


def pair_groups(by_word: dict[str, Losses]) -> dict[str, Any]:
    """Mean loss of the four rows with the same mini-batch switches (E_B, Std_B), with its interval over seeds."""
    found = {}
    for start in ("TT", "FT", "FF", "TF"):
        words = [word for word in by_word if word.startswith(start)]
        means = [statistics.fmean(by_word[word][seed] for word in words) for seed in by_word[words[0]]]
        one = interval_of(means)
        found[start] = {"loss": one.mean, "low": one.low, "high": one.high}
    return found


def against_baselines(ledger: Ledger, study_id: int) -> dict[str, Any]:
    """Test loss and accuracy of the row of each arm that is best on validation, and BLN's less the others', by seed."""
    study = ledger.study(study_id)
    board = study_leaderboard(ledger.engine, study_id, study.spec, on=Split.VALIDATION)
    scored = scores(ledger.engine, study_id)
    losses = losses_by_candidate(scored, Split.TEST)
    best = {arm: next(row for row in board.rows if row.arm == arm and row.rank) for arm in ("bln", "bn", "ln")}
    usual = {"bln": best["bln"]}
    for arm, (word, estimates) in _BASELINES.items():
        usual[arm] = next(
            row
            for row in board.rows
            if row.arm == arm and row.configuration.word == word and row.estimate in estimates and row.rank
        )
    answer: dict[str, Any] = {}
    for arm, row in usual.items():
        figures = row.figures[Split.TEST]
        answer[arm] = {
            "configuration": row.configuration.word,
            "population": row.estimate.value if row.estimate else None,
            "test_loss": figures.loss.mean,
            "test_accuracy": figures.accuracy.mean,
            "test_accuracy_deviation": figures.accuracy.deviation,
        }
        if arm != "bln":
            ours, theirs = losses[best["bln"].candidate], losses[row.candidate]
            difference = interval_of([ours[seed] - theirs[seed] for seed in sorted(ours)])
            answer[arm]["bln_less_this"] = [difference.mean, difference.low, difference.high]
    return answer


def study_result(ledger: Ledger, name: str, size: str) -> dict[str, Any] | None:
    """Every population estimate of a study; None where it is not finished."""
    try:
        study = ledger.find_study(name)
    except UnknownStudyError:
        return None
    if study.state.value != "complete":
        return None
    return {
        "published": f"Table 1, {'20 %' if size == '20pct' else 'all'} of the training set",
        "seeds": len(study.spec.seeds),
        "conditions": [
            condition(ledger, study.id, estimate, PUBLISHED[size]) for estimate in study.spec.evaluation.population
        ],
        "baselines": against_baselines(ledger, study.id),
    }


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--database", help="database URL")
    options = parser.parse_args()
    ledger = open_ledger(options.database or load_settings().database_url)
    found = {name: study_result(ledger, name, size) for name, size in STUDIES.items()}
    result = {name: one for name, one in found.items() if one is not None}
    for name, one in result.items():
        for each in one["conditions"]:
            kept = each["kendall"]
            print(f"{name} {each['population']}: tau {kept['tau']:.2f}, by seed {np.mean(kept['by_seed']):.2f}")
            for row in each["rows"]:
                print(
                    f"  {row['configuration']} {row['loss']:.4f} {row['accuracy']:.4f} {row['letters']:8s}"
                    f" {row['ranks'][0]}-{row['ranks'][1]} published {row['published_rank']}"
                )
    finish("published", result, save=options.save)


if __name__ == "__main__":
    main()
