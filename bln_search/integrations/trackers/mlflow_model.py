"""Registers exported networks as models of MLflow, with the flavour pytorch and a signature."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import mlflow.pytorch
import numpy as np
import torch
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.tracking import MlflowClient
from mlflow.types.schema import Schema, TensorSpec
from torch import Tensor, nn

from bln_search.api.export.loading import load
from bln_search.integrations.trackers.mlflow_names import shorten
from bln_search.integrations.trackers.records import RecommendedNetwork


def register_model_version(
    client: MlflowClient, name: str, run_id: str, network: RecommendedNetwork, tags: Mapping[str, str]
) -> str:
    """Upload a network as an artifact of a run, and register it as a version of a model.

    It is stored as a program of `torch.export`, which loads without bln-search.

    Args:
        client: Client of the server.
        name: Name of the model, which is created if it does not exist.
        run_id: The run.
        network: The network.
        tags: Tags of the version.

    Returns:
        Name and version.

    Raises:
        MlflowException: The server refuses.
    """
    artifact = f"model-{network.digest[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        _save_model(load(network.folder), network, path)
        client.log_artifacts(run_id, str(path), artifact)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    label = shorten(network.label)
    version = client.create_model_version(
        name, f"runs:/{run_id}/{artifact}", run_id, dict(tags), description=label, await_creation_for=0
    )
    return f"{name} version {version.version}"


@torch.no_grad()
def _save_model(network: nn.Module, exported: RecommendedNetwork, path: Path) -> None:
    example = np.zeros((exported.num_examples, *exported.input_shape), np.float32)
    outputs: Tensor = network(torch.from_numpy(example))
    mlflow.pytorch.save_model(
        network,
        str(path),
        signature=ModelSignature(_make_schema(example.shape), _make_schema(tuple(outputs.shape))),
        input_example=example,
        serialization_format="pt2",
        pip_requirements=[f"torch=={torch.__version__.partition('+')[0]}"],
    )


def _make_schema(shape: tuple[int, ...]) -> Schema:
    """The schema of a tensor of float32 with this shape, for any number of examples."""
    return Schema([TensorSpec(np.dtype(np.float32), (-1, *shape[1:]))])
