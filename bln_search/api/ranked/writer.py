"""Write ranked tables to a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save

from bln_search.api.fingerprint import NetworkFingerprint
from bln_search.api.inputs.metrics import MetricValues
from bln_search.api.ranked.file_format import (
    FORMAT,
    FORMAT_VERSION,
    Json,
    NumberedTensors,
    add_missing_suffix,
    ranked_file_content_sha256,
)
from bln_search.api.ranked.row import LayerPopulationsByName
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.errors import OutputFileError
from bln_search.core.files.atomic import write_atomically
from bln_search.core.loss_description import LossDescription
from bln_search.core.records import EvaluationKey, ExampleOutcomes
from bln_search.core.version import VERSION
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.norms.statistics import PopulationPair
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.looks import StagedReading
from bln_search.ranking.metrics import SplitMetrics


class WritableTable(Protocol):
    """What is written of the table of one network: the attributes of `RankedConfigurations`."""

    @property
    def board(self) -> Leaderboard: ...  # noqa: D102  # as of RankedConfigurations
    @property
    def populations(self) -> Mapping[str, LayerPopulationsByName]: ...  # noqa: D102
    @property
    def outcomes(self) -> Mapping[EvaluationKey, ExampleOutcomes]: ...  # noqa: D102
    @property
    def class_prior(self) -> ClassPriorBaseline | None: ...  # noqa: D102
    @property
    def per_slot(self) -> bool: ...  # noqa: D102
    @property
    def deployed(self) -> InferenceRow | None: ...  # noqa: D102
    @property
    def has_accuracy(self) -> bool: ...  # noqa: D102
    @property
    def score(self) -> LossDescription: ...  # noqa: D102
    @property
    def metric_values(self) -> MetricValues: ...  # noqa: D102
    @property
    def higher_is_better(self) -> Mapping[str, bool]: ...  # noqa: D102
    @property
    def fingerprints(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def network(self) -> int | None: ...  # noqa: D102
    @property
    def measured_with(self) -> NetworkFingerprint | None: ...  # noqa: D102
    @property
    def target_order(self) -> NDArray[np.uint64] | None: ...  # noqa: D102
    @property
    def examples_by_loader(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def staged_reading(self) -> StagedReading | None: ...  # noqa: D102
    @property
    def margin(self) -> float | None: ...  # noqa: D102


def write_ranked_tables(networks: Sequence[Mapping[str | None, WritableTable]], path: str | PathLike[str]) -> Path:
    """Write the tables of each network under each condition; file and errors as of `RankedConfigurations.save`.

    Args:
        networks: The tables of each network, by condition; a single condition may be without a name, None.
        path: The file.
    """
    file = add_missing_suffix(path)
    store = NumberedTensors()
    description = json.dumps(_tables_to_json(networks, store), allow_nan=False)
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "bln_search": VERSION,
        "tables": description,
        "sha256": ranked_file_content_sha256(VERSION, description, store.tensors),
    }
    try:
        write_atomically(file, save(store.tensors, metadata), mode=0o644)
    except OSError as error:
        raise OutputFileError(f"{file} cannot be written: {error}") from None
    return file


def _tables_to_json(networks: Sequence[Mapping[str | None, WritableTable]], store: NumberedTensors) -> Json:
    """All tables. The conditions of a network share its populations, which are stored once."""
    first_tables = [next(iter(tables.values())) for tables in networks]
    first = first_tables[0]
    return {
        "conditions": list(networks[0]),
        "fingerprints": list(first.fingerprints),
        "network": first.network if len(networks) == 1 else None,
        "networks": [
            {
                "populations": _populations_to_json(table.populations, store),
                "measured_with": None if table.measured_with is None else asdict(table.measured_with),
                "tables": [_table_to_json(each, store) for each in tables.values()],
            }
            for tables, table in zip(networks, first_tables, strict=True)
        ],
    }


def _table_to_json(table: WritableTable, store: NumberedTensors) -> Json:
    """The table of one network without its populations; arrays go into `store`."""
    return {
        "ranked_on": str(table.board.ranked_on),
        "rows": [_leaderboard_row_to_json(row) for row in table.board.rows],
        "outcomes": [_outcomes_to_json(key, outcomes, store) for key, outcomes in table.outcomes.items()],
        "class_prior": None
        if table.class_prior is None
        else {"loss": table.class_prior.loss, "accuracy": table.class_prior.accuracy},
        "per_slot": table.per_slot,
        "deployed": None
        if table.deployed is None
        else {"configuration": str(table.deployed.configuration), "estimate": table.deployed.estimate},
        "has_accuracy": table.has_accuracy,
        "score": {"name": table.score.name, "unit": table.score.unit},
        "metrics": [_metric_values_to_json(key, values) for key, values in table.metric_values.items()],
        "higher_is_better": dict(table.higher_is_better),
        "target_order": None
        if table.target_order is None
        else store.add(torch.from_numpy(table.target_order.view(np.int64))),
        "examples_by_loader": dict(table.examples_by_loader),
        "margin": table.margin,
        "staged_reading": None if table.staged_reading is None else asdict(table.staged_reading),
    }


def _populations_to_json(populations: Mapping[str, LayerPopulationsByName], store: NumberedTensors) -> Json:
    """Population values by estimate and layer; tensors go into `store`."""
    return {
        str(estimate): {
            name: {
                "batch": _population_pair_to_json(value.batch, store),
                "feature": _population_pair_to_json(value.feature, store),
            }
            for name, value in layers.items()
        }
        for estimate, layers in populations.items()
    }


def _population_pair_to_json(pair: PopulationPair | None, store: NumberedTensors) -> Json | None:
    if pair is None:
        return None
    deviation = None if pair.deviation is None else store.add(pair.deviation)
    return {"mean": store.add(pair.mean), "deviation": deviation, "reason": pair.reason}


def _leaderboard_row_to_json(row: LeaderboardRow) -> Json:
    missing = row.missing_seeds
    return {
        "rank": row.rank,
        "arm": row.arm,
        "configuration": str(row.configuration),
        "estimate": row.estimate,
        "batch_size": row.batch_size,
        "state": str(row.state),
        "seeds": row.seeds,
        "metrics": {str(split): _split_metrics_to_json(metrics) for split, metrics in row.metrics.items()},
        "reason": row.reason,
        "missing_seeds": None
        if missing is None
        else {"split": str(missing.split), "evaluated": missing.evaluated, "required": missing.required},
    }


def _split_metrics_to_json(metrics: SplitMetrics) -> Json:
    return {
        "loss": [metrics.loss.mean, metrics.loss.deviation],
        "accuracy": None if metrics.accuracy is None else [metrics.accuracy.mean, metrics.accuracy.deviation],
    }


def _evaluation_key_to_json(key: EvaluationKey) -> Json:
    return {
        "configuration": str(key.configuration),
        "estimate": key.estimate,
        "batch_size": key.batch_size,
        "split": str(key.split),
    }


def _metric_values_to_json(key: EvaluationKey, values: Mapping[str, float]) -> Json:
    """Values that are not finite are texts, because JSON has no such numbers."""
    return _evaluation_key_to_json(key) | {
        "values": {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
    }


def _outcomes_to_json(key: EvaluationKey, outcomes: ExampleOutcomes, store: NumberedTensors) -> Json:
    return _evaluation_key_to_json(key) | {
        "losses": store.add(torch.from_numpy(np.ascontiguousarray(outcomes.losses))),
        "correct": store.add(torch.from_numpy(np.ascontiguousarray(outcomes.correct))),
        "weights": None if outcomes.weights is None else store.add(torch.from_numpy(outcomes.weights)),
    }
