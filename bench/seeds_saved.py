"""Trainings that `seeds: {until: decided}` saves, against ten seeds, on twenty studies of handwritten digits.

The studies differ in network, learning rate and mini-batch size. Each is run twice: until it is decided, with at most
ten seeds, and with ten seeds. Compared are the numbers of finished trainings, and the answers: the same recommended
row, or one whose loss under ten seeds is within the margin of that of the other.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.support.processes import open_ledger, run_study_in_process
from bench.support.reporting import finish, make_parser
from bln_search.core.states import TrialState

SEEDS = 10
WIDTHS = ([16], [32, 16])
LEARNING_RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
BATCH_SIZES = (10, 50)


def list_studies() -> list[dict[str, Any]]:
    """Return the studies without their seeds."""
    return [
        {
            "name": f"digits_{index}",
            "data": {"name": "digits", "validation": 0.3},
            "model": {"name": "mlp", "widths": widths},
            "arms": [{"method": method} for method in ("bln", "bn", "ln")],
            "training": {"epochs": 4, "batch_size": batch_size, "learning_rate": rate},
            "evaluation": {"population": ["frozen"]},
        }
        for index, (widths, rate, batch_size) in enumerate(itertools.product(WIDTHS, LEARNING_RATES, BATCH_SIZES))
    ]


def run_study(study: dict[str, Any], seeds: Any, home: Path) -> dict[str, Any]:
    """Run a study; return its number of finished trainings, its verdict, recommended row and the losses of its rows."""
    run_study_in_process(home, json.dumps({**study, "seeds": seeds}))
    with open_ledger(home) as ledger:
        trials = ledger.trials.list_trials(1)
        stored = ledger.analyses.find_current_analysis(1)
    comparison = None if stored is None else stored.analysis.comparison
    recommendation = None if stored is None else stored.analysis.recommendation
    if comparison is None or recommendation is None:
        raise SystemExit(f"{study['name']}: no recommendation")
    return {
        "trainings": sum(trial.state is TrialState.FINISHED for trial in trials),
        "seeds": comparison.seeds,
        "margin": comparison.margin,
        "verdict": str(recommendation.verdict),
        "recommended": str(recommendation.key),
        "losses": {str(row.key): row.loss for row in comparison.rows},
    }


def compare_study(study: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run a study both ways."""
    decided = run_study(study, {"until": "decided", "at_most": SEEDS}, folder / f"{study['name']}_decided")
    full = run_study(study, list(range(SEEDS)), folder / f"{study['name']}_full")
    losses = full["losses"]
    excess = losses[decided["recommended"]] - losses[full["recommended"]]
    return {
        "study": study["name"],
        "trainings": decided["trainings"],
        "of": full["trainings"],
        "seeds": decided["seeds"],
        "verdict": decided["verdict"],
        "verdict_of_ten_seeds": full["verdict"],
        "same_row": decided["recommended"] == full["recommended"],
        "excess": excess,
        "agrees": excess <= full["margin"],
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    studies = list_studies()[:: 10 if options.quick else 1]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for study in studies:
            results.append(compare_study(study, Path(folder)))
            print(results[-1], flush=True)
    saved = 1 - sum(result["trainings"] for result in results) / sum(result["of"] for result in results)
    finish(
        "seeds_saved",
        {
            "saved": saved,
            "agree": sum(result["agrees"] for result in results),
            "same_row": sum(result["same_row"] for result in results),
            "studies": len(results),
            "results": results,
        },
        save=options.save,
    )


if __name__ == "__main__":
    main()
