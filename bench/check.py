"""`bln_search.check` on planted cases and on healthy networks: right causes, right verdicts, false alarms.

Each case is a fault as people make it, planted into a trained network (`bench.support.check.plants`). A cause is right
if it is the first finding; of a case without effect, if no finding has one. Healthy networks are multilayer perceptrons
on digits, trained with different seeds, widths, mini-batch sizes and durations; a false alarm is the verdict to change
one. `recalibrate` is measured on the quantized networks: the part of the lost cross-entropy that it recovers.
"""

from __future__ import annotations

import copy
import os
import time
from typing import Any

import torch

import bln_search
from bench.support.check.plants import CASES, Case, Planted
from bench.support.check.training import load, make_mlp, make_resnet18, train
from bench.support.reporting import finish, make_parser, spread
from bln_search.ranking.network_check import CheckVerdict, NetworkCheck

QUICK_CASES = frozenset(
    {"healthy, MLP", "fine-tuned, MLP", "momentum 0", "mini-batches of 2", "NaN channel", "dropout on"}
)


def check_planted(planted: Planted) -> NetworkCheck:
    """Check a planted network."""
    train_loader, validation_loader = planted.loaders()
    report = bln_search.check(planted.network, train_loader, validation_loader, copies=planted.copies, progress=False)
    return report.check


def measure_case(case: Case) -> dict[str, Any]:
    """One planted case."""
    start = time.perf_counter()
    planted = case.plant()
    made = time.perf_counter()
    done = check_planted(planted)
    found = done.findings[0] if done.findings else None
    if case.causes:
        is_right = found is not None and found.cause in case.causes
    else:
        is_right = not any(finding.has_effect for finding in done.findings)
    return {
        "name": case.name,
        "cause": None if found is None else str(found.cause),
        "verdict": str(done.verdict),
        "chosen": str(done.chosen),
        "is_cause_right": is_right,
        "is_verdict_right": done.verdict is case.verdict,
        "losses": {f"{row.variant} {row.batch_size}": row.loss for row in done.variants},
        "seconds_planting": made - start,
        "seconds": time.perf_counter() - made,
    }


def measure_healthy(seed: int) -> dict[str, Any]:
    """A healthy network with random settings."""
    torch.manual_seed(seed)
    data = load("digits", 1000, 400)
    generator = torch.Generator().manual_seed(seed)

    def draw(values: list[Any]) -> Any:
        return values[int(torch.randint(len(values), (1,), generator=generator))]

    settings = {
        "width": draw([16, 32, 64]),
        "depth": draw([1, 2, 3]),
        "batch_size": draw([16, 32, 64]),
        "epochs": draw([3, 6, 10]),
    }
    network = train(
        make_mlp([settings["width"]] * settings["depth"]),
        data,
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        seed=seed,
    )
    done = check_planted(Planted(network, data, training_batch_size=settings["batch_size"]))
    return {
        **settings,
        "seed": seed,
        "verdict": str(done.verdict),
        "chosen": str(done.chosen),
        "cause": str(done.cause),
    }


def measure_recovery(case: Case) -> dict[str, Any]:
    """The part of the loss lost by quantization that `recalibrate` recovers."""
    planted = case.plant()
    done = check_planted(planted)
    healthy = next(each for each in CASES if each.name == f"healthy, {case.name.partition(', ')[2]}")
    before = check_planted(healthy.plant()).deployed.loss
    recalibrated = bln_search.recalibrate(
        copy.deepcopy(planted.network),
        planted.loaders()[0],
        validation_loader=planted.loaders()[1],
        certificate=True,
        progress=False,
    )
    assert isinstance(recalibrated, tuple)
    certificate = recalibrated[1]
    assert before is not None
    assert certificate.after is not None
    assert done.deployed.loss is not None
    return {
        "name": case.name,
        "before": before,
        "quantized": done.deployed.loss,
        "recalibrated": certificate.after,
        "recovered": (done.deployed.loss - certificate.after) / (done.deployed.loss - before),
        "examples": certificate.examples,
    }


def measure_time(pairs: int) -> dict[str, Any]:
    """The time of a check of ResNet-18 over that of three plain passes, 1,000 images of 32 × 32, all cores."""
    torch.set_num_threads(os.cpu_count() or 1)
    data = load("cifar10", 1000, 1000)
    network = make_resnet18().eval()
    ratios, seconds = [], []
    for _ in range(pairs):
        start = time.perf_counter()
        with torch.no_grad():
            for _ in range(3):
                for inputs, _ in data.validation_loader():
                    network(inputs)
        passes = time.perf_counter() - start
        start = time.perf_counter()
        check_planted(Planted(network, data, training_batch_size=64))
        seconds.append(time.perf_counter() - start)
        ratios.append(seconds[-1] / passes)
    return {"over_three_passes": spread(ratios), "seconds": spread(seconds), "pairs": pairs, "threads": os.cpu_count()}


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    cases = [case for case in CASES if not options.quick or case.name in QUICK_CASES]
    results = []
    for case in cases:
        results.append(measure_case(case))
        print({key: value for key, value in results[-1].items() if key != "losses"}, flush=True)
    healthy = [measure_healthy(seed) for seed in range(10 if options.quick else 200)]
    alarms = [each for each in healthy if each["verdict"] == CheckVerdict.CHANGE]
    print(f"false alarms {alarms}", flush=True)
    recovery = [] if options.quick else [measure_recovery(case) for case in CASES if "bits" in case.name]
    print(f"recovery {recovery}", flush=True)
    duration = {} if options.quick else measure_time(1)
    print(f"time {duration}", flush=True)
    finish(
        "check",
        {
            "cases": len(results),
            "causes_right": sum(each["is_cause_right"] for each in results),
            "verdicts_right": sum(each["is_verdict_right"] for each in results),
            "healthy": len(healthy),
            "false_alarms": len(alarms),
            "undecided": sum(each["verdict"] == CheckVerdict.CANNOT_TELL for each in healthy),
            "planted": results,
            "alarms": alarms,
            "recovery": recovery,
            "time": duration,
        },
        save=options.save,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
