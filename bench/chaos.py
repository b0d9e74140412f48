"""Fault injection: processes of a study are killed repeatedly, and the same command resumes it.

Each run uses a new database. At random moments, drawn from the seed, the driver, a worker or (with Ray) the raylet is
killed with SIGKILL. A command that ends without success is started again until it succeeds. Then every evaluation must
be stored exactly once, and the leaderboard must be, byte by byte, that of an undisturbed run. Executors alternate:
local, ray, local, ...
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.support.killed_study import KilledStudy, run_with_kills
from bench.support.reporting import finish, make_parser

STUDY = """
name: chaos
data: {name: digits, validation: 0.2}
model: {name: mlp, widths: [64]}
arms: [{method: bln}, {method: mbn, lambda: {0: 0.1, 0.4: 0.5, 0.6: 0.9}, double_forward: true}]
training: {epochs: 12, batch_size: 25}
seeds: [0, 1]
"""
EVALUATIONS = 2 * 2 * 16 + 2 * 2 * 9
"""Evaluations: seeds × splits × configurations of each arm."""

KILLS = 3
"""Largest number of kills of a run, so that it ends."""

MEAN_SECONDS = {"local": 4.0, "ray": 8.0}
"""Mean time between two kills, by executor."""


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executors", default="local,ray", help="executors, used alternately")
    options = parser.parse_args()
    runs = 4 if options.quick else options.runs
    executors = options.executors.split(",")
    draw = random.Random(options.seed)
    killed: Counter[str] = Counter()
    lost = duplicated = differing = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        expected = KilledStudy(Path(folder) / "undisturbed", STUDY, options=("--executor", "local")).run()
        for number in range(runs):
            executor = executors[number % len(executors)]
            study = KilledStudy(Path(folder) / str(number), STUDY, options=("--executor", executor))
            kills = run_with_kills(study, KILLS, draw, mean_seconds=MEAN_SECONDS[executor])
            evaluation_counts = study.count_evaluations()
            lost += EVALUATIONS - len(evaluation_counts)
            duplicated += sum(count - 1 for count in evaluation_counts.values())
            differing += study.output != expected
            killed += kills
            outcome = "equal" if study.output == expected else "NOT EQUAL"
            print(f"run {number} {executor}: killed {json.dumps(kills)}, {outcome}", flush=True)
    result = {
        "runs": runs,
        "lost": lost,
        "duplicated": duplicated,
        "differing": differing,
        "killed": dict(killed),
        "seed": options.seed,
        "seconds": time.monotonic() - start,
    }
    finish("chaos", result, save=options.save)


if __name__ == "__main__":
    main()
