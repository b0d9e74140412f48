"""Plans the number of seeds of a study from its results so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bln_search.core.errors import DataError
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.paired.seed_power import SeedPlan, plan_seeds
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger
from bln_search.worker.analysis.comparison import group_ranked_evaluations, load_table_of_best_rows


@dataclass(frozen=True)
class StudySeedPlan:
    """The plan of a study, with the rows that its indices mean.

    Attributes:
        plan: The plan; its groups are the arms, or the rows of a study with one arm.
        rows: Compared rows.
        examples: Number of examples of the split that ranks.
    """

    plan: SeedPlan
    rows: tuple[RowKey, ...]
    examples: int


def plan_seeds_of_study(
    ledger: Ledger,
    study: StudyRecord,
    *,
    effect: float | None,
    power: float,
    on_progress: Callable[[int], None] = lambda _: None,
) -> StudySeedPlan:
    """Estimate how many seeds decide between the arms of a study, or between the rows of its only arm.

    Args:
        ledger: Ledger with the study.
        study: The study: the seeds that it has so far are the pilot.
        effect: True difference of losses that is to be found; None for the margin of the study.
        power: Share of the studies that should decide.
        on_progress: Called with each number of seeds before its studies are drawn.

    Raises:
        DataError: The results do not tell how seeds vary; the message says why.
    """
    records = ledger.results.list_clean_evaluations(study.id)
    board = build_leaderboard_from_evaluations(
        (record.as_trial_evaluation for record in records), study.spec.ranking.split, seeds=study.spec.ranked_seeds
    )
    loaded = load_table_of_best_rows(ledger.results, group_ranked_evaluations(records, board))
    if isinstance(loaded, str):
        raise DataError(f"study {study.id} ({study.name}) cannot be planned: {loaded}")
    rows, table = loaded
    arms = list(dict.fromkeys(row.arm for row in rows))
    plan = plan_seeds(
        table if board.has_accuracy else replace(table, has_correctness=False),
        [arms.index(row.arm) for row in rows],
        effect=effect,
        margin=study.spec.ranking.practical,
        power=power,
        on_progress=on_progress,
    )
    return StudySeedPlan(plan, tuple(rows), table.num_examples)
