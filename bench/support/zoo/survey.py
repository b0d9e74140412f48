"""Survey of `bench.zoo`: which networks of other libraries `convert` takes, and whether their evaluation is exact."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from bench.support.reporting import finish, provenance, read_result, write_document
from bench.support.zoo.survey_evaluation import BATCH_SIZE, BATCHES, SECONDS, survey_conversion, survey_evaluation
from bench.support.zoo.survey_families import TIMM_FAMILIES
from bench.support.zoo.survey_subjects import Surveyed, surveyed_networks

LARGEST = 13_000_000
"""Largest number of parameters of a network that is evaluated."""

SECONDS_AGAIN = 900
"""Limit of the processor time of a network that exceeded that of the survey."""

QUICK = ("convnext", "efficientnet", "vision_transformer", "mobilenet_v3_small", "r3d_18", "bert", "llama")
"""Families of the quick survey."""


def survey_networks(subjects: Iterable[Surveyed]) -> list[dict[str, Any]]:
    """Convert all networks and evaluate the small ones among those that are converted, in a process of its own."""
    entries = []
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for subject in subjects:
            entry: dict[str, Any] = {"library": subject.library, "network": subject.name, "family": subject.family}
            start = time.monotonic()
            entry |= pool.apply(survey_conversion, (subject,))
            is_converted = entry["status"] in ("converted", "partly converted")
            if is_converted and subject.is_evaluated and entry["parameters"] <= LARGEST:
                entry["evaluation"] = pool.apply(survey_evaluation, (subject,))
            print(f"{summary_line(entry)}  {time.monotonic() - start:.0f} s", flush=True)
            entries.append(entry)
    return entries


def summary_line(entry: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    line = f"{entry['library']:12} {entry['family']:28} {entry['status']:22} {entry.get('layers', ''):18}"
    evaluation = entry.get("evaluation")
    if evaluation is None:
        return f"{line} {entry['reason'] or ''}"
    if "failed" in evaluation:
        return f"{line} {evaluation['failed']}"
    how = "one pass" if evaluation["one_pass"] else "one by one"
    return (
        f"{line} {how} {evaluation['rows']} rows {evaluation['losses']:.0e} changed {evaluation['changed']:.0e} "
        f"ill-conditioned {evaluation['ill_conditioned']} {evaluation.get('refusal', '')[:120]}"
    )


def summarize_survey(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of networks by library and status, and the largest differences."""
    libraries = dict.fromkeys(entry["library"] for entry in entries)
    statuses = {
        library: dict(Counter(entry["status"] for entry in entries if entry["library"] == library))
        for library in libraries
    }
    evaluations = [entry["evaluation"] for entry in entries if "evaluation" in entry]
    done = [evaluation for evaluation in evaluations if "failed" not in evaluation]
    in_one_pass = [evaluation for evaluation in done if evaluation["one_pass"]]
    return {
        "networks": len(entries),
        "statuses": statuses,
        "evaluated": len(done),
        "in_one_pass": len(in_one_pass),
        "failed": [entry["network"] for entry in entries if "failed" in entry.get("evaluation", {})],
        "rows": sum(evaluation["rows"] for evaluation in done),
        "ill_conditioned_rows": sum(evaluation["ill_conditioned"] for evaluation in done),
        "max_change_by_conversion": max((evaluation["changed"] for evaluation in done), default=0.0),
        "max_relative_difference_of_losses": max((evaluation["losses"] for evaluation in in_one_pass), default=0.0),
    }


def repeat_failed(*, save: bool) -> None:
    """Evaluate the networks of the saved survey that were not evaluated, in a longer time, and print the new result."""
    document = read_result("zoo_survey")
    if document is None:
        raise FileNotFoundError("there is no bench/results/zoo_survey.json: python -m bench.zoo --survey --save")
    result = document["result"]
    failed = {entry["network"]: entry for entry in result["entries"] if "failed" in entry.get("evaluation", {})}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for subject in surveyed_networks(TIMM_FAMILIES):
            entry = failed.get(subject.name)
            if entry is not None and entry["library"] == subject.library:
                evaluation = pool.apply(survey_evaluation, (subject, SECONDS_AGAIN))
                entry["evaluation"] = {**evaluation, "again": provenance("cpu")}
                print(summary_line(entry), flush=True)
                result |= summarize_survey(result["entries"]) | {"seconds_again": SECONDS_AGAIN}
                if save:
                    write_document("zoo_survey", document)
    print(json.dumps({name: result[name] for name in ("evaluated", "in_one_pass", "failed", "rows")}))


def run_survey(*, quick: bool, save: bool) -> None:
    """Convert and evaluate the networks of the survey, and print the result."""
    subjects = (subject for subject in surveyed_networks(TIMM_FAMILIES) if not quick or subject.family in QUICK)
    print("library, network, conversion, layers; evaluation: rows, largest difference of losses from a plain loop,")
    print("change of the outputs by the conversion, ill-conditioned rows")
    entries = survey_networks(subjects)
    names = ("timm", "torchvision", "transformers")
    result = {
        **summarize_survey(entries),
        "batch_size": BATCH_SIZE,
        "batches": BATCHES,
        "seconds": SECONDS,
        "largest": LARGEST,
        "versions": {name: version(name) for name in names},
        "entries": entries,
    }
    finish("zoo_survey", result, save=save)
