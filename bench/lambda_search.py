"""TPE with ASHA against random search that trains as many epochs: the λ schedule of MBN, on Ray Tune.

Each repetition has another seed of the samplers, and both samplers begin with the same random schedules. Random search
has as many complete trials as fit into the epochs of TPE with ASHA, rounded up. The best schedule of each search is
then trained with new seeds. Every search is the study `mbn_lambda_search_mnist` with another `search` section.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from typing import Any

from bench.support.ledgers import TrialEnds, temporary_environment
from bench.support.reporting import finish, make_parser
from bench.support.search_runs import SearchRun, SearchTrial, summarize_searches
from bln_search.core.enums import Split
from bln_search.core.states import StudyState, TrialState
from bln_search.execution.executors.base import Executor
from bln_search.execution.executors.ray.executor import RayExecutor
from bln_search.settings import load_settings
from bln_search.specs import StudySpec, load_study
from bln_search.specs.sampled_trial import SampledTrial
from bln_search.specs.sections.search import Pruner, Sampler, SearchSpec
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from bln_search.worker import run_study

STUDY = Path(__file__).parents[1] / "studies" / "mbn_lambda_search_mnist.yaml"
KEY = "arm.lambda"


def make_search_study(study: StudySpec, seed: int, epochs: int | None = None) -> StudySpec:
    """Return the study with TPE and ASHA, or with random search that trains at least `epochs` epochs."""
    search = study.search or SearchSpec()
    changes: dict[str, Any] = {"seed": seed}
    if epochs is not None:
        trials = ceil(epochs / study.training.epochs)
        changes |= {"sampler": Sampler.RANDOM, "pruner": Pruner.NONE, "trials": trials}
    kind = "tpe" if epochs is None else "random"
    return study.model_copy(update={"name": f"{study.name}_{kind}_{seed}", "search": search.model_copy(update=changes)})


def run_search(ledger: Ledger, executor: Executor, study: StudySpec) -> SearchRun:
    """Run a search; return its trials in order, and the results of the best schedule with new seeds."""
    study_id = ledger.studies.store_study_once(study)
    state = run_study(ledger, study_id, executor, TrialEnds())
    if state is not StudyState.COMPLETE:
        raise RuntimeError(f"{study.name} is {state}")
    trials = [trial for point in ledger.trials.list_sampled_trials_grouped_by_point(study_id) for trial in point]
    configuration = study.arms[0].checkpoint_selection_configuration
    results = [
        (record.seed, record.evaluation)
        for record in ledger.results.list_evaluations_for_ranking(study_id)
        if record.evaluation.key.configuration == configuration
    ]
    return SearchRun(
        tuple(_search_trial(trial) for trial in trials if trial.trial.is_search_phase_trial),
        {seed: each.loss for seed, each in results if each.key.split is Split.VALIDATION and each.loss is not None},
        {seed: 100 * (1 - (each.accuracy or 0.0)) for seed, each in results if each.key.split is Split.TEST},
    )


def _search_trial(sampled: SampledTrial) -> SearchTrial:
    return SearchTrial(
        tuple(sampled.parameters[KEY]["steps"].values()),
        tuple(loss for _, loss in sorted(sampled.losses.items())),
        sampled.state is TrialState.FINISHED,
    )


def shorten(study: StudySpec) -> StudySpec:
    """Return the study with few trials of few epochs."""
    search = (study.search or SearchSpec()).model_copy(update={"trials": 4, "startup": 2, "min_epochs": 1})
    training = study.training.model_copy(update={"epochs": 2})
    data = study.data.model_copy(update={"fraction": 0.03})
    return study.model_copy(update={"search": search, "training": training, "data": data, "seeds": (1, 2)})


def run_pairs(study: StudySpec, repetitions: int) -> list[dict[str, SearchRun]]:
    """Run both searches of each repetition."""
    pairs = []
    with (
        temporary_environment() as (url, environment),
        closing(open_and_upgrade_ledger(url)) as ledger,
        RayExecutor(replace(environment, data=load_settings().data_folder), 1) as executor,
    ):
        for seed in range(repetitions):
            tpe = run_search(ledger, executor, make_search_study(study, seed))
            random = run_search(ledger, executor, make_search_study(study, seed, tpe.epochs))
            pairs.append({"tpe": tpe, "random": random})
            print(
                f"seed {seed}: tpe {tpe.best_loss:.4f}, random {random.best_loss:.4f}, {tpe.epochs} epochs", flush=True
            )
    return pairs


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    study = load_study(STUDY)
    pairs = run_pairs(shorten(study), 2) if options.quick else run_pairs(study, options.repetitions)
    searches = [{name: asdict(run) for name, run in pair.items()} for pair in pairs]
    result = {"spec": study.model_dump(mode="json"), **summarize_searches(pairs), "searches": searches}
    finish("lambda_search", result, save=options.save)


if __name__ == "__main__":
    main()
