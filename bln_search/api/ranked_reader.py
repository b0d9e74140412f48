"""Read ranked tables from a file; nothing in it is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bln_search.api.conditions.tables import RankedConditions
from bln_search.api.fingerprint import NetworkFingerprint
from bln_search.api.ranked.file_format import (
    FORMAT,
    FORMAT_VERSION,
    Json,
    NumberedTensors,
    add_missing_suffix,
    ranked_file_content_sha256,
)
from bln_search.api.ranked.row import LayerPopulationsByName
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.api.several_tables import NetworkTables, combine_tables_over_networks
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.core.records import EvaluationKey, ExampleOutcomes
from bln_search.core.states import EvaluationState
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.norms.statistics import LayerPopulation, PopulationPair
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, SeedShortfall
from bln_search.ranking.looks import StagedReading
from bln_search.ranking.metrics import MeanStd, SplitMetrics


def load_ranked(path: str | PathLike[str]) -> RankedConfigurations | RankedConditions:
    """Read ranked tables that `save` wrote. Nothing in the file is executed.

    Args:
        path: The file; the suffix `.safetensors` may be left out.

    Returns:
        What was saved: a `RankedConfigurations`, or a `RankedConditions`.

    Raises:
        DataError: The file cannot be read, is damaged, or is no file of ranked tables; or a later version wrote it.

    Example:
        ranked.save("ranked")
        ranked = bln_search.load_ranked("ranked")
    """
    file = _resolve_ranked_file(path)
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
    try:
        return _tables_from_json(json.loads(description), NumberedTensors(tensors))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{file} is damaged: {error!r}") from None


def _read_metadata_and_tensors(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of a file."""
    try:
        with safe_open(file, framework="pt") as opened:
            return dict(opened.metadata() or {}), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from None
    except SafetensorError as error:
        raise DataError(f"{file} is damaged, or not a file of ranked tables: {error}") from None


def _resolve_ranked_file(path: str | PathLike[str]) -> Path:
    """The file itself, or with its suffix."""
    file = Path(path)
    return file if file.is_file() else add_missing_suffix(path)


def _tables_from_json(content: Json, store: NumberedTensors) -> RankedConfigurations | RankedConditions:
    """All tables. Raises KeyError, TypeError or ValueError for a content of another form."""
    networks: list[NetworkTables] = []
    for network in content["networks"]:
        populations = _populations_from_json(network["populations"], store)
        tables = [_network_table_from_json(table, populations, store) for table in network["tables"]]
        measured_with = network.get("measured_with")  # missing in files of earlier versions
        if measured_with is not None:
            tables = [replace(table, measured_with=NetworkFingerprint(**measured_with)) for table in tables]
        if content["network"] is not None:
            fingerprints = tuple(content["fingerprints"])
            tables = [replace(table, fingerprints=fingerprints, network=content["network"]) for table in tables]
        networks.append(dict(zip(content["conditions"], tables, strict=True)))
    return combine_tables_over_networks(networks, content["fingerprints"])


def _network_table_from_json(
    content: Json, populations: Mapping[str, LayerPopulationsByName], store: NumberedTensors
) -> RankedConfigurations:
    """The table of one network."""
    prior, deployed = content["class_prior"], content["deployed"]
    staged = content.get("staged_reading")  # missing in files of earlier versions
    return RankedConfigurations(
        board=Leaderboard(
            Split(content["ranked_on"]),
            tuple(_leaderboard_row_from_json(row, has_accuracy=content["has_accuracy"]) for row in content["rows"]),
        ),
        populations=populations,
        outcomes=dict(_outcomes_from_json(entry, store) for entry in content["outcomes"]),
        class_prior=None if prior is None else ClassPriorBaseline(**prior),
        per_slot=content["per_slot"],
        deployed=None
        if deployed is None
        else InferenceRow(InferenceConfiguration(deployed["configuration"]), deployed["estimate"]),
        has_accuracy=content["has_accuracy"],
        score=_score_from_json(content),
        metric_values=dict(map(_metric_values_from_json, content["metrics"])),
        higher_is_better=content["higher_is_better"],
        target_order=None
        if content.get("target_order") is None  # missing in files of earlier versions
        else store.get_by_name(content["target_order"]).numpy().view(np.uint64),
        examples_by_loader=content.get("examples_by_loader", {}),
        margin=content.get("margin"),
        staged_reading=None if staged is None else StagedReading(**staged),
    )


def _score_from_json(content: Json) -> LossDescription:
    """What the loss is. Earlier files do not say it: without accuracy it is no cross-entropy."""
    if "score" not in content:
        return CROSS_ENTROPY if content["has_accuracy"] else LossDescription("loss")
    return LossDescription(**content["score"])


def _populations_from_json(content: Json, store: NumberedTensors) -> dict[str, dict[str, LayerPopulation]]:
    """Population values by estimate and layer."""
    return {
        estimate: {
            name: LayerPopulation(
                _population_pair_from_json(value["batch"], store), _population_pair_from_json(value["feature"], store)
            )
            for name, value in layers.items()
        }
        for estimate, layers in content.items()
    }


def _population_pair_from_json(content: Json | None, store: NumberedTensors) -> PopulationPair | None:
    if content is None:
        return None
    deviation = content["deviation"]
    return PopulationPair(
        store.get_by_name(content["mean"]),
        None if deviation is None else store.get_by_name(deviation),
        content["reason"],
    )


def _leaderboard_row_from_json(content: Json, *, has_accuracy: bool) -> LeaderboardRow:
    """A row. Earlier files have accuracies of 0 for a score without correctness."""
    missing = content["missing_seeds"]
    return LeaderboardRow(
        rank=content["rank"],
        arm=content["arm"],
        configuration=InferenceConfiguration(content["configuration"]),
        estimate=content["estimate"],
        batch_size=content["batch_size"],
        state=EvaluationState(content["state"]),
        seeds=content["seeds"],
        metrics={
            Split(split): SplitMetrics(
                MeanStd(*metrics["loss"]), MeanStd(*metrics["accuracy"]) if has_accuracy else None
            )
            for split, metrics in content["metrics"].items()
        },
        reason=content["reason"],
        missing_seeds=None
        if missing is None
        else SeedShortfall(Split(missing["split"]), missing["evaluated"], missing["required"]),
    )


def _evaluation_key_from_json(content: Json) -> EvaluationKey:
    return EvaluationKey(
        InferenceConfiguration(content["configuration"]),
        content["estimate"],
        content["batch_size"],
        Split(content["split"]),
    )


def _metric_values_from_json(content: Json) -> tuple[EvaluationKey, dict[str, float]]:
    return _evaluation_key_from_json(content), {name: float(value) for name, value in content["values"].items()}


def _outcomes_from_json(content: Json, store: NumberedTensors) -> tuple[EvaluationKey, ExampleOutcomes]:
    weights = content.get("weights")
    outcomes = ExampleOutcomes(
        store.get_by_name(content["losses"]).numpy(),
        store.get_by_name(content["correct"]).numpy(),
        None if weights is None else store.get_by_name(weights).numpy(),
    )
    return _evaluation_key_from_json(content), outcomes
