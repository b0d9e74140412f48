"""Files of ranked tables: safetensors, whose metadata describe the tables as JSON. Nothing in a file is executed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from bln_search.api.networks import NetworkFingerprint
from bln_search.api.ranked.rows import RankedRows
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, OutputFileError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.files.atomic import write_atomically
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.core.records import EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.core.version import VERSION
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.norms.statistics import LayerPopulation, PopulationPair
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, SeedShortfall
from bln_search.ranking.looks import StagedReading
from bln_search.ranking.metrics import MeanStd, SplitMetrics

FORMAT = "bln-search ranked tables"
FORMAT_VERSION = 1
SUFFIX = ".safetensors"

Json = dict[str, Any]
_Table = TypeVar("_Table", bound=RankedRows)
_Value = TypeVar("_Value")
_Converted = TypeVar("_Converted")


class NumberedTensors:
    """Named tensors of a file; each gets the next number."""

    def __init__(self, tensors: Mapping[str, Tensor] | None = None) -> None:
        self.tensors: dict[str, Tensor] = dict(tensors or {})

    def add(self, values: Tensor | NDArray[Any]) -> str:
        """Add values and return their name."""
        tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        name = str(len(self.tensors))
        self.tensors[name] = tensor.detach().contiguous().cpu().clone()
        return name

    def get_array(self, name: str) -> NDArray[Any]:
        """The values of this name. Raises KeyError if there are none."""
        array: NDArray[Any] = self.tensors[name].numpy()
        return array


def write_ranked_tables(networks: Sequence[Mapping[str | None, RankedRows]], path: str | PathLike[str]) -> Path:
    """Write the tables of each network by condition; file and errors as of `RankedConfigurations.save`.

    A single condition may be without a name, None. The conditions of a network share its populations, which are stored
    once.
    """
    file = _add_missing_suffix(path)
    store = NumberedTensors()
    first_tables = [next(iter(tables.values())) for tables in networks]
    content = {
        "conditions": list(networks[0]),
        "fingerprints": list(first_tables[0].fingerprints),
        "network": first_tables[0].network if len(networks) == 1 else None,
        "networks": [
            {
                "populations": _populations_to_json(first.populations, store),
                "measured_with": _convert(first.measured_with, asdict),
                "tables": [_table_to_json(table, store) for table in tables.values()],
            }
            for tables, first in zip(networks, first_tables, strict=True)
        ],
    }
    description = json.dumps(content, allow_nan=False)
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


def read_ranked_tables(
    path: str | PathLike[str], make_table: Callable[..., _Table]
) -> tuple[list[dict[str | None, _Table]], tuple[str, ...]]:
    """Read what `write_ranked_tables` wrote; errors as of `load_ranked`. The suffix of the file may be left out.

    `make_table` is called with the attributes of each table. Returns also the fingerprints of several networks.
    """
    file = Path(path) if Path(path).is_file() else _add_missing_suffix(path)
    metadata, tensors = _read_metadata_and_tensors(file)
    if metadata.get("format") != FORMAT:
        raise DataError(f"{file} is not a file of ranked tables: give one that ranked.save(path) wrote")
    if metadata.get("format_version") != str(FORMAT_VERSION):
        raise DataError(
            f"{file} has format version {metadata.get('format_version')}, this bln-search reads {FORMAT_VERSION}: "
            f"it was written by bln-search {metadata.get('bln_search')}, which reads it"
        )
    description = metadata.get("tables", "")
    if ranked_file_content_sha256(metadata.get("bln_search", ""), description, tensors) != metadata.get("sha256"):
        raise DataError(f"{file} is damaged: its content does not have the recorded SHA-256")
    store = NumberedTensors(tensors)
    try:
        content = json.loads(description)
        fingerprints = tuple(content["fingerprints"])
        of_one = {} if content["network"] is None else {"fingerprints": fingerprints, "network": content["network"]}
        networks = []
        for network in content["networks"]:
            shared = of_one | {
                "populations": _populations_from_json(network["populations"], store),
                "measured_with": _convert(network.get("measured_with"), lambda value: NetworkFingerprint(**value)),
            }
            tables = [make_table(**_table_from_json(table, store), **shared) for table in network["tables"]]
            networks.append(dict(zip(content["conditions"], tables, strict=True)))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{file} is damaged: {error!r}") from None
    return networks, fingerprints


def _read_metadata_and_tensors(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as opened:
            return dict(opened.metadata() or {}), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from None
    except SafetensorError as error:
        raise DataError(f"{file} is damaged, or not a file of ranked tables: {error}") from None


def ranked_file_content_sha256(version: str, description: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the version that wrote the file, of the description of the tables and of all tensors."""
    digest = hashlib.sha256(f"{version}\n{description}".encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _add_missing_suffix(path: str | PathLike[str]) -> Path:
    file = Path(path)
    return file if file.suffix else file.with_name(file.name + SUFFIX)


def _convert(value: _Value | None, function: Callable[[_Value], _Converted]) -> _Converted | None:
    return None if value is None else function(value)


def _table_to_json(table: RankedRows, store: NumberedTensors) -> Json:
    """The table of one network without its populations; arrays go into `store`."""
    return {
        "ranked_on": str(table.board.ranked_on),
        "rows": [_row_to_json(row) for row in table.board.rows],
        "outcomes": [_key_to_json(key) | _outcomes_to_json(value, store) for key, value in table.outcomes.items()],
        "class_prior": _convert(table.class_prior, asdict),
        "per_slot": table.per_slot,
        "deployed": _convert(
            table.deployed, lambda row: {"configuration": str(row.configuration), "estimate": row.estimate}
        ),
        "has_accuracy": table.has_accuracy,
        "score": asdict(table.score),
        "metrics": [_key_to_json(key) | _metrics_to_json(values) for key, values in table.metric_values.items()],
        "higher_is_better": dict(table.higher_is_better),
        "target_order": _convert(table.target_order, lambda order: store.add(order.view(np.int64))),
        "examples_by_loader": dict(table.examples_by_loader),
        "margin": table.margin,
        "staged_reading": _convert(table.staged_reading, asdict),
    }


def _table_from_json(content: Json, store: NumberedTensors) -> Json:
    """The attributes of a table without its populations. Files of earlier versions lack some of them."""
    has_accuracy = content["has_accuracy"]
    # earlier files do not say what the loss is: without accuracy it is no cross-entropy
    score = asdict(CROSS_ENTROPY if has_accuracy else LossDescription("loss"))
    return {
        "board": Leaderboard(
            Split(content["ranked_on"]),
            tuple(_row_from_json(row, has_accuracy=has_accuracy) for row in content["rows"]),
        ),
        "outcomes": {_key_from_json(item): _outcomes_from_json(item, store) for item in content["outcomes"]},
        "class_prior": _convert(content["class_prior"], lambda value: ClassPriorBaseline(**value)),
        "per_slot": content["per_slot"],
        "deployed": _convert(
            content["deployed"],
            lambda row: InferenceRow(InferenceConfiguration(row["configuration"]), row["estimate"]),
        ),
        "has_accuracy": has_accuracy,
        "score": LossDescription(**content.get("score", score)),
        "metric_values": {
            _key_from_json(item): {name: float(value) for name, value in item["values"].items()}
            for item in content["metrics"]
        },
        "higher_is_better": content["higher_is_better"],
        "target_order": _convert(content.get("target_order"), lambda name: store.get_array(name).view(np.uint64)),
        "examples_by_loader": content.get("examples_by_loader", {}),
        "margin": content.get("margin"),
        "staged_reading": _convert(content.get("staged_reading"), lambda value: StagedReading(**value)),
    }


def _populations_to_json(populations: Mapping[str, Mapping[str, LayerPopulation]], store: NumberedTensors) -> Json:
    """Population values by estimate and layer; tensors go into `store`."""

    def pair_to_json(pair: PopulationPair) -> Json:
        return {"mean": store.add(pair.mean), "deviation": _convert(pair.deviation, store.add), "reason": pair.reason}

    return {
        str(estimate): {
            name: {"batch": _convert(value.batch, pair_to_json), "feature": _convert(value.feature, pair_to_json)}
            for name, value in layers.items()
        }
        for estimate, layers in populations.items()
    }


def _populations_from_json(content: Json, store: NumberedTensors) -> dict[str, dict[str, LayerPopulation]]:
    def pair_from_json(pair: Json) -> PopulationPair:
        deviation = _convert(pair["deviation"], store.tensors.__getitem__)
        return PopulationPair(store.tensors[pair["mean"]], deviation, pair["reason"])

    return {
        estimate: {
            name: LayerPopulation(_convert(value["batch"], pair_from_json), _convert(value["feature"], pair_from_json))
            for name, value in layers.items()
        }
        for estimate, layers in content.items()
    }


def _row_to_json(row: LeaderboardRow) -> Json:
    return {
        "rank": row.rank,
        "arm": row.arm,
        "configuration": str(row.configuration),
        "estimate": row.estimate,
        "batch_size": row.batch_size,
        "state": str(row.state),
        "seeds": row.seeds,
        "metrics": {
            str(split): {"loss": list(metrics.loss), "accuracy": _convert(metrics.accuracy, list)}
            for split, metrics in row.metrics.items()
        },
        "reason": row.reason,
        "missing_seeds": _convert(row.missing_seeds, asdict),
    }


def _row_from_json(content: Json, *, has_accuracy: bool) -> LeaderboardRow:
    """A row; unknown keys are ignored. Earlier files have accuracies of 0 for a score without correctness."""
    metrics = {
        Split(split): SplitMetrics(MeanStd(*values["loss"]), MeanStd(*values["accuracy"]) if has_accuracy else None)
        for split, values in content["metrics"].items()
    }
    parsed: Json = {
        "configuration": InferenceConfiguration(content["configuration"]),
        "state": EvaluationState(content["state"]),
        "metrics": metrics,
        "missing_seeds": _convert(
            content["missing_seeds"],
            lambda value: SeedShortfall(Split(value["split"]), value["evaluated"], value["required"]),
        ),
    }
    plain = {name: content[name] for name in ("rank", "arm", "estimate", "batch_size", "seeds", "reason")}
    return LeaderboardRow(**plain, **parsed)


def _key_to_json(key: EvaluationKey) -> Json:
    return {
        "configuration": str(key.configuration),
        "estimate": key.estimate,
        "batch_size": key.batch_size,
        "split": str(key.split),
    }


def _key_from_json(content: Json) -> EvaluationKey:
    configuration = InferenceConfiguration(content["configuration"])
    return EvaluationKey(configuration, content["estimate"], content["batch_size"], Split(content["split"]))


def _metrics_to_json(values: Mapping[str, float]) -> Json:
    """Values that are not finite are texts, because JSON has no such numbers."""
    return {"values": {name: value if math.isfinite(value) else str(value) for name, value in values.items()}}


def _outcomes_to_json(outcomes: ExampleOutcomes, store: NumberedTensors) -> Json:
    return {
        "losses": store.add(outcomes.losses),
        "correct": store.add(outcomes.correct),
        "weights": _convert(outcomes.weights, store.add),
    }


def _outcomes_from_json(content: Json, store: NumberedTensors) -> ExampleOutcomes:
    weights = _convert(content.get("weights"), store.get_array)
    return ExampleOutcomes(store.get_array(content["losses"]), store.get_array(content["correct"]), weights)
