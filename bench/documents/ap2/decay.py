"""The study of weight decay: norms of weights, losses, and their differences with and without decay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bench.documents.ap2.cells import NAMES, OWN_ROWS, mean_rise
from bench.documents.ap2.format import interval, table
from bench.documents.curves import values_by_epoch
from bench.documents.curves_command import MAX_CURVES, add_mean_line
from bench.documents.experiments import finished_study
from bench.documents.papers.seed_values import Values
from bench.support.reporting import read_result
from bln_search.storage.ledger import Ledger
from bln_search.storage.pagination import PageRequest

STUDY = "ap2_weight_decay_mnist"
ARMS = ("wn", "bn", "ap2")
OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}
COLOURS = {"none": "#8c8c8c", "wn": "#8172b2", "bn": "#c44e52", "ap2": "#55a868"}
"""The colour of each arm in all charts of the page."""

_MEASURES = ("training_loss", "validation_loss")


def run_name(arm: str, optimizer: str, *, has_decay: bool) -> str:
    """Return the name of a run in the file."""
    return f"{arm}, {optimizer}, {'decay' if has_decay else 'no decay'}"


def collect_decay(ledger: Ledger, name: str) -> dict[str, Any] | None:
    """Return norms of the first layer's weights, losses by epoch and rows of every run; None while unfinished."""
    study = finished_study(ledger, name)
    if study is None:
        return None
    geometries = ledger.results.read_layer_geometries_by_arm_and_point(study.id)
    runs: dict[str, dict[str, Any]] = {}
    for curve in ledger.listing.list_learning_curve_page_plus_one(study.id, PageRequest(MAX_CURVES, "position"), {}):
        trial, point = curve.trial, (curve.trial.parameters or {})["training"]
        run = runs.setdefault(
            run_name(trial.arm, point["optimizer"], has_decay=point["weight_decay"] > 0),
            {"curves": [], "norms": [], "rows": {}},
        )
        records = geometries[trial.arm, trial.point_json][trial.seed]
        run["norms"].append([record.weight_norm for record in records if record.layer == records[0].layer])
        run["curves"].append(curve.epochs)
        for evaluation in ledger.results.list_trial_evaluations_with_outcomes(trial.id):
            key = evaluation.key
            if f"{key.configuration} {key.estimate or '-'}" == OWN_ROWS[trial.arm]:
                values = [evaluation.loss, evaluation.accuracy]
                run["rows"].setdefault(str(key.split), {})[trial.seed] = values
    return {
        "spec": study.spec.model_dump(mode="json"),
        "runs": {
            name: {
                "weight_norm": values_by_epoch(run["norms"]),
                **{
                    measure: values_by_epoch([[epoch[measure] for epoch in epochs] for epochs in run["curves"]])
                    for measure in _MEASURES
                },
                "rows": run["rows"],
            }
            for name, run in runs.items()
        },
    }


def read_run(arm: str, optimizer: str, *, has_decay: bool) -> Mapping[str, Any] | None:
    """Return a run of the file; None if it is not measured."""
    document = read_result(STUDY)
    if document is None:
        return None
    run: Mapping[str, Any] | None = document["result"]["runs"].get(run_name(arm, optimizer, has_decay=has_decay))
    return run


def last_loss(run: Mapping[str, Any] | None, split: str = "validation") -> Values | None:
    """Return the loss of a run in its own row by seed."""
    return None if run is None else {int(seed): values[0] for seed, values in run["rows"][split].items()}


def last_norm(run: Mapping[str, Any] | None) -> Values | None:
    """Return the norm of a unit's weights in the first layer after the last epoch by seed."""
    return None if run is None else dict(enumerate(run["weight_norm"][-1]["seeds"]))


def training_rise(run: Mapping[str, Any] | None) -> Values | None:
    """Return the mean increase of the training loss from epoch to epoch by seed, decreases counted as 0."""
    if run is None:
        return None
    by_seed = zip(*(epoch["seeds"] for epoch in run["training_loss"]), strict=True)
    return {seed: mean_rise(values) for seed, values in enumerate(by_seed)}


def decay_lines() -> list[str]:
    """Return the table of all runs."""
    lines = []
    for optimizer, title in OPTIMIZERS.items():
        for arm in ARMS:
            for has_decay, decay in ((False, "0"), (True, "1e-4")):
                run = read_run(arm, optimizer, has_decay=has_decay)
                cells = (
                    ["not run"] * 5
                    if run is None
                    else [
                        interval(run["weight_norm"][0]["seeds"], 3),
                        interval(run["weight_norm"][-1]["seeds"], 3),
                        interval(run["training_loss"][-1]["seeds"], 4),
                        interval((last_loss(run) or {}).values(), 4),
                        interval((training_rise(run) or {}).values(), 5),
                    ]
                )
                lines.append(f"| {title} | {NAMES[arm]} | {decay} | {' | '.join(cells)} |")
    columns = (
        "optimizer",
        "method",
        "weight decay",
        "norm, epoch 1",
        "norm, last epoch",
        "training loss",
        "validation loss",
        "mean rise of the training loss",
    )
    return table(columns, lines)


def decay_chart(document: Mapping[str, Any]) -> go.Figure:
    """Norm of a unit's weights in the first layer by epoch, Adam on the left and SGD on the right."""
    chart = make_subplots(1, len(OPTIMIZERS), subplot_titles=list(OPTIMIZERS.values()))
    for column, optimizer in enumerate(OPTIMIZERS, start=1):
        for arm in ARMS:
            for has_decay in (False, True):
                run = document["result"]["runs"][run_name(arm, optimizer, has_decay=has_decay)]
                name = f"{NAMES[arm]}{', weight decay' if has_decay else ''}"
                dash = "dot" if has_decay else "solid"
                add_mean_line(chart, column, run["weight_norm"], name, colour=COLOURS[arm], dash=dash)
        chart.update_xaxes(title="epoch", row=1, col=column)
    chart.update_yaxes(title="norm of a unit's weights", row=1, col=1)
    return chart


def origin_line(name: str) -> str:
    """Return file, seeds and hardware of a result; `not run` without a file."""
    document = read_result(name)
    if document is None:
        return f"`{name}`: not run."
    origin, spec = document["provenance"], document["result"]["spec"]
    return (
        f"`bench/results/{name}.json`: {len(spec['seeds'])} seeds, {json.dumps(spec['training']['epochs'])} epochs, "
        f"{origin['hardware']}, torch {origin['versions']['torch']}."
    )
