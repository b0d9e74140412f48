"""Evaluations that searches need to find the optimum of the enumeration of all per-layer configurations.

Each network of `bln_cifar10_20pct_per_layer` (LeNet, BLN, CIFAR-10 20 %, m = 25) is enumerated on its 1,000 validation
examples. Beam, coordinate, tpe, racing and random search then search this table with several random seeds. A search
succeeds if it ends at the best configuration, or in its tie group: among the thousand best, those that are not
significantly different from it in the crossed test over the examples of the network.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from bench.support.loss_table import TableLossSource
from bench.support.reporting import finish, make_parser, spread
from bln_search.cli.environment import make_execution_environment
from bln_search.core.enums import LayerSearchAlgorithm, Split
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.differences_to_best import differences_to_best
from bln_search.ranking.statistics.intervals import adjust_p_values_by_holm
from bln_search.search.layers.objective import BestSoFar, BudgetedObjective
from bln_search.search.layers.strategies import StrategyOptions, search_within_budget
from bln_search.settings import load_settings
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

STUDY = "bln_cifar10_20pct_per_layer"
SEARCHES = (
    LayerSearchAlgorithm.BEAM,
    LayerSearchAlgorithm.COORDINATE,
    LayerSearchAlgorithm.TPE,
    LayerSearchAlgorithm.RACING,
    LayerSearchAlgorithm.RANDOM,
)
BUDGET = 1_310
"""2 % of 65,536 evaluations."""

CHECKPOINTS = tuple(sorted({round(10 ** (1.2 + 0.05 * step)) for step in range(39)} | {BUDGET}))
"""Numbers of evaluations of the curve."""


def tabulate_losses(trial: TrialRecord, environment: ExecutionEnvironment) -> TableLossSource:
    """Return every configuration's sum of losses in each validation mini-batch."""
    with use_trained_network(trial.spec, trial.get_checkpoint_record(), environment) as loaded:
        batches = list(
            iter_mini_batches_with_fillers(*loaded.data.splits[Split.VALIDATION], trial.spec.training.batch_size)
        )
        tree_options = PerLayerEvaluatorOptions(estimate=trial.spec.population_estimates[0])
        tree = TreePerLayerEvaluator(
            loaded.network, batches, loaded.populations_by_estimate_and_layer, tree_options, folds=range(len(batches))
        )
        sums = tree.sum_scores_of_all_configurations()
    return TableLossSource(tree.space, sums.losses, sums.examples)


def find_tie_group(record: LayerSearchRecord) -> set[tuple[int, ...]]:
    """Return the best configuration and those not significantly different (two-sided, 5 %, Holm over a thousand)."""
    losses = np.stack([outcome.losses for outcome in record.outcomes]).astype(np.float32)
    tied = {tuple(int(digit) for digit in record.kept[0])}
    p_values = []
    for index in range(1, len(losses)):
        pair = OutcomeTable(losses[None, [0, index]], np.stack([record.outcomes[0].correct] * 2)[None])
        p_values.append(float(differences_to_best(pair, "loss", 0).p[1]))
    adjusted = adjust_p_values_by_holm(p_values)
    not_rejected = [index for index, p in enumerate(adjusted, start=1) if p >= 0.05]
    return tied | {tuple(int(digit) for digit in record.kept[index]) for index in not_rejected}


def count_evaluations_until(improvements: list[BestSoFar], targets: set[tuple[int, ...]], spent: float) -> float | None:
    """Return the evaluations after which the best so far is one of these and remains one."""
    hits = [improvement.digits in targets for improvement in improvements]
    if not hits or not hits[-1]:
        return None
    first = len(hits)
    while first and hits[first - 1]:
        first -= 1
    return min(improvements[first].evaluations, spent)


def run_searches(source: TableLossSource, record: LayerSearchRecord, seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Run each search with each seed on one network."""
    best, tied_configurations = {record.best}, find_tie_group(record)
    lowest_loss = float(record.sums.mean_loss_per_configuration.min())
    runs: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in SEARCHES}
    for kind in SEARCHES:
        for seed in range(seeds):
            objective = BudgetedObjective(source, range(len(source.examples)), BUDGET)
            search_within_budget(kind, objective, StrategyOptions(seed=seed))
            runs[str(kind)].append(
                {
                    "best": count_evaluations_until(objective.improvements, best, objective.spent),
                    "tied": count_evaluations_until(objective.improvements, tied_configurations, objective.spent),
                    "spent": objective.spent,
                    "regret": objective.best.loss - lowest_loss,
                }
            )
    return runs


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--database", help="ledger with the searched study")
    parser.add_argument("--study", default=STUDY, help="a study with the same networks")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--seeds", type=int, default=2, help="random seeds on each network")
    options = parser.parse_args()
    settings = load_settings()
    environment = make_execution_environment(settings, options.data)
    with closing(open_and_upgrade_ledger(options.database or settings.database_url)) as ledger:
        networks = _networks(ledger, options.study)
        runs: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in SEARCHES}
        sizes = []
        for trial, record in networks[: 2 if options.quick else None]:
            for kind, results in run_searches(tabulate_losses(trial, environment), record, options.seeds).items():
                runs[kind] += results
            sizes.append(len(find_tie_group(record)))
            print(f"seed {trial.seed}: tie group of {sizes[-1]}")
    result = {
        "study": options.study,
        "configurations": 65_536,
        "budget": BUDGET,
        "networks": len(sizes),
        "seeds": options.seeds,
        "tie_group": spread([float(size) for size in sizes]),
        "searches": {kind: _summarize_runs(results) for kind, results in runs.items()},
        "evaluations": list(CHECKPOINTS),
    }
    for kind, summary in result["searches"].items():
        print(f"{kind:11} {summary['share']}  evaluations {summary['spent']}  regret {summary['regret']}")
    finish("layer_search", result, save=options.save)


def _networks(ledger: Ledger, name: str) -> list[tuple[TrialRecord, LayerSearchRecord]]:
    study = ledger.studies.get_by_name_or_id(name)
    records = {
        (trial.arm, trial.seed): trial.record for trial in ledger.layer_searches.iter_finished_searches(study.id)
    }
    return [
        (trial, records[trial.arm, trial.seed]) for trial in ledger.trials.list_finished_full_trials(study.id, "bln")
    ]


def _summarize_runs(runs: list[dict[str, Any]]) -> dict[str, Any]:
    def curve(target: str) -> list[float]:
        return [
            sum(run[target] is not None and run[target] <= count for run in runs) / len(runs) for count in CHECKPOINTS
        ]

    return {
        "runs": len(runs),
        "share": {target: curve(target)[-1] for target in ("best", "tied")},
        "reached": {"best": curve("best"), "tied": curve("tied")},
        "spent": spread([run["spent"] for run in runs]),
        "regret": spread([run["regret"] for run in runs]),
    }


if __name__ == "__main__":
    main()
