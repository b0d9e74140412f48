"""Variances over examples of all pairs of rows, from which pairs can be compared without the losses of examples.

With the means by seed of STUDY.json they are all that the test of a pair over seeds and examples needs
(`bln_search.ranking.paired.crossed_anova`). Variances of single seeds do not suffice: seeds share their examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.documents.collection.tables import row_label
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed_anova import contrast_variances_of_pairs
from bln_search.ranking.paired.distinct_rows import find_distinct_rows
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.storage.results.evaluations import EvaluationRecord
from bln_search.worker.analysis.comparison import group_ranked_evaluations, load_table_of_best_rows

MAX_ROWS = 80
"""Number of rows, from the best one down on the split that ranks, whose pairs are kept."""


def collect_pairs(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    """Return the pairs of the best rows on the split that ranks and on test, or why a split has none."""
    records = ledger.results.list_clean_evaluations(study.id)
    best = [key for key, _ in _rank_rows(records, study, study.spec.ranking.split)][:MAX_ROWS]
    splits: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for split in dict.fromkeys((study.spec.ranking.split, Split.TEST)):
        ranked = {key: by_seed for key, by_seed in _rank_rows(records, study, split) if key in best}
        loaded = load_table_of_best_rows(ledger.results, ranked)
        if isinstance(loaded, str):
            reasons[split] = loaded
        else:
            splits[split] = describe_pairs(*loaded)
    return {"study": study.name, "spec": study.spec.model_dump(mode="json"), "splits": splits, "without": reasons}


def describe_pairs(rows: Sequence[RowKey], table: OutcomeTable) -> dict[str, Any]:
    """Return the variances of the mean difference of every pair of different rows.

    Each list has a text of numbers for each row but the last: of its pairs with all later rows. Of `equal` rows only
    the first one has pairs.
    """
    labels = [row_label(*row) for row in rows]
    distinct = find_distinct_rows(table.losses)
    kept = table.restrict_to_rows(distinct.kept.tolist())
    first = [labels[place] for place in distinct.kept]
    return {
        "examples": kept.num_examples,
        "seeds": kept.num_seeds,
        "rows": first,
        "equal": {
            label: first[place] for label, place in zip(labels, distinct.of_row, strict=True) if label not in first
        },
        "variance_from_examples": {
            "new trainings": list(_variances_from_examples(kept)),
            "these networks": list(_variances_from_examples(kept.average_over_seeds())),
        },
    }


def _variances_from_examples(table: OutcomeTable) -> Iterator[str]:
    contrasts = contrast_variances_of_pairs(table.losses, "loss", table.row_pairs)
    ((variances, _),) = contrasts.of_examples
    for row in range(table.num_rows - 1):
        yield " ".join(f"{variance:.5g}" for variance in variances[table.row_pairs[0] == row])


def _rank_rows(
    records: Sequence[EvaluationRecord], study: StudyRecord, split: Split
) -> list[tuple[RowKey, dict[int, list[EvaluationRecord]]]]:
    board = build_leaderboard_from_evaluations(
        (record.as_trial_evaluation for record in records), split, seeds=study.spec.ranked_seeds
    )
    return list(group_ranked_evaluations(records, board).items())
