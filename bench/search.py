"""TPE with successive halving against random search with twice as many trials, on the study `mbn_lambda_tpe_small`.

Ten repetitions with other sampler seeds. The figure of a search is the best validation loss of its trials. N trials of
TPE with ASHA train fewer epochs than 2 N complete trials of random search.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.support.ledgers import TrialEnds, temporary_environment
from bench.support.reporting import finish, make_parser, spread
from bln_search.core.states import TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.specs import StudySpec, load_study
from bln_search.specs.sections.search import Pruner, Sampler
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study

STUDY = Path(__file__).parents[1] / "studies" / "mbn_lambda_tpe_small.yaml"


def run_search(study: StudySpec) -> dict[str, Any]:
    """Return the best validation loss of a search, its trials and epochs, and its duration."""
    start = time.monotonic()
    with temporary_environment() as (url, environment), closing(open_and_upgrade_ledger(url)) as ledger:
        study_id = ledger.studies.store_study_once(study)
        run_study(ledger, study_id, LocalExecutor(environment), TrialEnds())
        trials = [trial for point in ledger.trials.list_sampled_trials_grouped_by_point(study_id) for trial in point]
    finished = [min(trial.losses.values()) for trial in trials if trial.state is TrialState.FINISHED]
    return {
        "best": min(finished),
        "trials": len(trials),
        "epochs": sum(len(trial.losses) for trial in trials),
        "seconds": time.monotonic() - start,
    }


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--repetitions", type=int, default=10)
    options = parser.parse_args()
    study = load_study(STUDY)
    assert study.search is not None
    repetitions = 2 if options.quick else options.repetitions
    runs: dict[str, list[dict[str, Any]]] = {"tpe": [], "random": []}
    for seed in range(repetitions):
        tpe = study.search.model_copy(update={"seed": 1000 * seed})
        random = tpe.model_copy(
            update={
                "sampler": Sampler.RANDOM,
                "pruner": Pruner.NONE,
                "trials": 2 * tpe.trials,
                "seed": 1000 * seed + 500,
            }
        )
        for name, search in (("tpe", tpe), ("random", random)):
            runs[name].append(run_search(study.model_copy(update={"search": search})))
        print(f"seed {seed}: tpe {runs['tpe'][-1]['best']:.4f}, random {runs['random'][-1]['best']:.4f}", flush=True)
    best = {name: [run["best"] for run in runs_of_search] for name, runs_of_search in runs.items()}
    result = {
        "tpe_best": spread(best["tpe"]),
        "random_best": spread(best["random"]),
        "mean_difference": sum(a - b for a, b in zip(best["tpe"], best["random"], strict=True)) / repetitions,
        "tpe_no_worse": sum(a <= b for a, b in zip(best["tpe"], best["random"], strict=True)),
        "repetitions": repetitions,
        **{
            measure: {name: spread([run[measure] for run in runs_of_search]) for name, runs_of_search in runs.items()}
            for measure in ("trials", "epochs", "seconds")
        },
    }
    finish("search", result, save=options.save)


if __name__ == "__main__":
    main()
