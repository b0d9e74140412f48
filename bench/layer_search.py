"""Evaluations that searches need to find the optimum of the enumeration of all per-layer configurations.

The networks of `bln_cifar10_20pct_per_layer` (LeNet, BLN, CIFAR-10 20 %, m = 25): one after the other is enumerated on
its 1,000 validation examples, and beam, coordinate, tpe, racing and random search look for the best in that table, with
a random seed each. Reached: the best of all, or one of its tie group: those that the crossed test (`compare`, of that
network over examples) does not tell from it, among the thousand best.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from bench.loss_table import TableLossSource
from bench.reporting import arguments, finish, spread
from bln_search.cli.environment import make_environment
from bln_search.core.enums import LayerSearch, Split
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.evaluation.batches import mini_batches
from bln_search.evaluation.tree.space import TreeOptions
from bln_search.evaluation.tree.tree_evaluator import TreeEvaluator
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import load_trained_network
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed_anova import crossed_differences
from bln_search.search.layers.objective import BudgetedObjective, Improvement
from bln_search.search.layers.strategies import Options, search
from bln_search.settings import load_settings
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import Ledger, open_ledger

STUDY = "bln_cifar10_20pct_per_layer"
SEARCHES = (LayerSearch.BEAM, LayerSearch.COORDINATE, LayerSearch.TPE, LayerSearch.RACING, LayerSearch.RANDOM)
BUDGET = 1_310
"""Two hundredths of 65,536."""

CHECKPOINTS = tuple(sorted({round(10 ** (1.2 + 0.05 * step)) for step in range(39)} | {BUDGET}))
"""Numbers of evaluations of the curve."""


def table_of(one: TrialRecord, place: ExecutionEnvironment) -> TableLossSource:
    """Return every configuration's sum of losses in each validation mini-batch."""
    with load_trained_network(one.spec, one.require_checkpoint(), place) as loaded:
        batches = list(mini_batches(*loaded.data.splits[Split.VALIDATION], one.spec.training.batch_size))
        asked = TreeOptions(estimate=one.spec.estimates[0])
        tree = TreeEvaluator(loaded.network, batches, loaded.populations, asked, folds=range(len(batches)))
        sums = tree.enumerate()
    return TableLossSource(tree.space, sums.losses, sums.examples)


def tie_group(record: LayerSearchRecord) -> set[tuple[int, ...]]:
    """Return the best configuration and those not significantly different (two-sided, 5 %, Holm over a thousand)."""
    losses = np.stack([one.losses for one in record.outcomes]).astype(np.float32)
    tied = {tuple(int(digit) for digit in record.kept[0])}
    count = len(losses) - 1
    found = []
    for place in range(1, len(losses)):
        pair = OutcomeTable(losses[None, [0, place]], np.stack([record.outcomes[0].correct] * 2)[None])
        found.append((float(crossed_differences(pair, "loss").p[0]), place))
    rejected = 0
    for rank, (p, _) in enumerate(sorted(found)):
        if p * (count - rank) >= 0.05:
            break
        rejected += 1
    kept = {place for _, place in sorted(found)[rejected:]}
    return tied | {tuple(int(digit) for digit in record.kept[place]) for place in kept}


def reached_at(improvements: list[Improvement], wanted: set[tuple[int, ...]], spent: float) -> float | None:
    """Return the evaluations after which the best so far is one of these and remains one."""
    inside = [improvement.digits in wanted for improvement in improvements]
    if not inside or not inside[-1]:
        return None
    first = len(inside)
    while first and inside[first - 1]:
        first -= 1
    return min(improvements[first].evaluations, spent)


def runs_of(source: TableLossSource, record: LayerSearchRecord, seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Run each search with each seed on one network."""
    best, tied = {record.best}, tie_group(record)
    truth = float(record.sums.mean_loss.min())
    found: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in SEARCHES}
    for kind in SEARCHES:
        for seed in range(seeds):
            objective = BudgetedObjective(source, range(len(source.examples)), BUDGET)
            search(kind, objective, Options(seed=seed))
            found[str(kind)].append(
                {
                    "best": reached_at(objective.improvements, best, objective.spent),
                    "tied": reached_at(objective.improvements, tied, objective.spent),
                    "spent": objective.spent,
                    "regret": objective.best.loss - truth,
                }
            )
    return found


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--database", help="ledger with the study, searched")
    parser.add_argument("--study", default=STUDY, help="a study with the same networks")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--seeds", type=int, default=2, help="random seeds on each network")
    options = parser.parse_args()
    settings = load_settings()
    place = make_environment(settings, options.data)
    with closing(open_ledger(options.database or settings.database_url)) as ledger:
        networks = _networks(ledger, options.study)
        runs: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in SEARCHES}
        sizes = []
        for one, record in networks[: 2 if options.quick else None]:
            for kind, found in runs_of(table_of(one, place), record, options.seeds).items():
                runs[kind] += found
            sizes.append(len(tie_group(record)))
            print(f"seed {one.seed}: tie group of {sizes[-1]}")
    result = {
        "study": options.study,
        "configurations": 65_536,
        "budget": BUDGET,
        "networks": len(sizes),
        "seeds": options.seeds,
        "tie_group": spread([float(size) for size in sizes]),
        "searches": {kind: _summary(found) for kind, found in runs.items()},
        "evaluations": list(CHECKPOINTS),
    }
    for kind, summary in result["searches"].items():
        print(f"{kind:11} {summary['share']}  evaluations {summary['spent']}  regret {summary['regret']}")
    finish("layer_search", result, save=options.save)


def _networks(ledger: Ledger, name: str) -> list[tuple[TrialRecord, LayerSearchRecord]]:
    study = ledger.studies.find(name)
    records = {(one.arm, one.seed): one.record for one in ledger.layer_searches.iterate(study.id)}
    return [(one, records[one.arm, one.seed]) for one in ledger.trials.list_trained(study.id, "bln")]


def _summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    def curve(what: str) -> list[float]:
        return [
            sum(one[what] is not None and one[what] <= count for one in found) / len(found) for count in CHECKPOINTS
        ]

    return {
        "runs": len(found),
        "share": {what: curve(what)[-1] for what in ("best", "tied")},
        "reached": {"best": curve("best"), "tied": curve("tied")},
        "spent": spread([one["spent"] for one in found]),
        "regret": spread([one["regret"] for one in found]),
    }


if __name__ == "__main__":
    main()
