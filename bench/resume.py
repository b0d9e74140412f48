"""Resumption of killed trainings: its exactness, the epochs that are lost, and what saving costs.

Exactness: worker processes of a study are killed by SIGKILL at random moments. Each next attempt resumes from the last
saved state. The leaderboard must equal that of an undisturbed run byte by byte, with the content of each network.

Cost: networks are trained with a save after every epoch and without, in pairs. The default saves once in a minute.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.support.killed_study import KilledStudy, run_with_kills
from bench.support.reporting import finish, make_parser, spread
from bln_search.core.checkpoints import FolderStore
from bln_search.data.prepared import PreparedData
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.code_identity import compute_code_identity
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.execution.messages import TrialTask
from bln_search.execution.resumable_training import ResumableTraining
from bln_search.specs import parse_study
from bln_search.specs.trial import TrialSpec, make_representative_trial_specs
from bln_search.training.seeding import reproducible_torch
from bln_search.training.training_state import collect_training_state, encode_training_state

KILLED = """
name: killed
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [64]}
arms:
  - {method: bln, population: [frozen, epoch, moving]}
  - {method: mbn, lambda: {0: 0.1, 0.4: 0.5, 0.6: 0.9}, double_forward: true}
training: {epochs: 150, batch_size: 25, schedule: {kind: cosine}}
seeds: [0]
"""
_SAVE_SECONDS = "0.1"
_STATE = "0" * 32 + ".state"

NETWORKS = {
    "mlp on digits": (1200, "data: {name: digits}\nmodel: {name: mlp, widths: [64]}\narms: [{method: bln}]"),
    "lenet on MNIST": (6000, "data: {name: mnist}\nmodel: {name: lenet}\narms: [{method: bln}]"),
    "lstm on IMDB": (600, "data: {name: imdb}\nmodel: {name: lstm, widths: [60]}\narms: [{method: bln}]"),
}
"""Number of training examples, and the sections of the study."""


def measure_exactness(kills: int, seed: int) -> dict[str, Any]:
    """Return the comparison of a study whose workers are killed with an undisturbed one."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        studies = [KilledStudy(Path(folder) / name, KILLED, _SAVE_SECONDS) for name in ("undisturbed", "killed")]
        studies[0].run()
        killed = run_with_kills(studies[1], kills, random.Random(seed), kinds=("worker",)).total()
        results = [study.read_results() for study in studies]
        needed, trained = (study.count_epochs() for study in studies)
        differing = (studies[0].output != studies[1].output) + (results[0] != results[1])
        return {
            "kills": killed,
            "resumed": len(studies[1].list_resumed_epochs()),
            "differing": differing,
            "epochs": needed,
            "repeated_epochs": trained - needed,
            "repeated_epochs_per_kill": (trained - needed) / max(1, killed),
            "files_left": len(studies[1].list_state_files()),
        }


def time_training(trial: TrialSpec, data: PreparedData, environment: ExecutionEnvironment) -> tuple[float, float]:
    """Return the seconds of all epochs of a training, and of one save of its state afterwards."""
    with reproducible_torch(trial.seed, threads=1):
        network = build_initialized_network(trial, data)
        task = TrialTask(1, trial, state_file=_STATE)
        training = ResumableTraining(
            task, network, data, environment, lambda _: None, compute_code_identity(task.trial)
        )
        start = time.perf_counter()
        for _ in training.train_remaining_epochs_announcing_each():
            pass
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        content = encode_training_state(collect_training_state(training.run), {})
        environment.checkpoints.write(_STATE, content)
        return seconds, time.perf_counter() - start


def measure_cost(name: str, pairs: int, epochs: int) -> dict[str, Any]:
    """Return the ratio of durations with and without a save after every epoch, over pairs, and the state's size."""
    examples, sections = NETWORKS[name]
    study = parse_study(f"name: x\n{sections}\ntraining: {{epochs: {epochs}}}\nseeds: [0]")
    trial = make_representative_trial_specs(study)[0]
    data = make_synthetic_prepared_data(trial.data, examples)
    ratios: list[float] = []
    plain: list[float] = []
    saves: list[float] = []
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        store = FolderStore(Path(folder))
        for index in range(pairs + 1):
            seconds = {}
            for interval in (None, 0.0) if index % 2 else (0.0, None):
                environment = ExecutionEnvironment(Path(folder), Path(folder), store, save_seconds=interval)
                store.delete(_STATE)
                seconds[interval], save_seconds = time_training(trial, data, environment)
            if index:  # the first pair warms up
                ratios.append(seconds[0.0] / seconds[None])
                plain.append(seconds[None] / epochs)
                saves.append(save_seconds)
        info = store.find_file_info(_STATE)
        assert info is not None
    parameters = sum(
        value.numel() * value.element_size() for value in build_initialized_network(trial, data).parameters()
    )
    return {
        "ratio_every_epoch": spread(ratios),
        "seconds_per_epoch": statistics.median(plain),
        "seconds_per_save": statistics.median(saves),
        "overhead_once_a_minute": statistics.median(saves) / 60,
        "state_bytes": info.size,
        "parameter_bytes": parameters,
    }


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=6)
    options = parser.parse_args()
    result = measure_exactness(4 if options.quick else options.kills, options.seed)
    print(json.dumps(result), flush=True)
    pairs, epochs = (5, 2) if options.quick else (options.pairs, 3)
    costs = {}
    for name in NETWORKS:
        costs[name] = measure_cost(name, pairs, epochs)
        print(name, json.dumps(costs[name]), flush=True)
    finish("resume", {**result, "pairs": pairs, "seed": options.seed, "networks": costs}, save=options.save)


if __name__ == "__main__":
    main()
