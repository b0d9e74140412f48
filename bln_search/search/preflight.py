"""Preflight checks of a study: find what will fail before anything is trained or stored."""

from __future__ import annotations

from math import ceil

import torch
from torch import nn

from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.core.registry import MODELS, model_data_problem
from bln_search.data.catalog import find_entry
from bln_search.data.conditions import check_conditions
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.checks.independence import check_independence
from bln_search.execution.environment import ExecutionEnvironment, load_prepared_data
from bln_search.execution.loaded_network import build_network
from bln_search.models.factory import check_model
from bln_search.norms.network.layers import find_norms
from bln_search.search.layers.search import assign_folds
from bln_search.search.layers.trial_search import check_layers
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import boundary_trials
from bln_search.training.augmentation import Augmentation


def check_model_and_data(study: StudySpec) -> None:
    """Raise DataError or ModelError unless the data set and the model exist and fit together.

    The model must take its options and, if both names are built in, this kind of data.
    """
    find_entry(study.data.name)
    check_model(study.model.name, study.model.model_dump(exclude={"name"}, exclude_none=True))
    problem = model_data_problem(study.model.name, study.data.name)
    if problem is not None:
        raise ModelError(problem)


def check_study(study: StudySpec, environment: ExecutionEnvironment) -> tuple[str, ...]:
    """Load the data, check the mini-batch sizes, build every arm's network once, and write to the checkpoint store.

    Args:
        study: The study.
        environment: Where its trials will run.

    Returns:
        Remarks on the data set that matter for its figures.

    Raises:
        DataError: The data set is missing, has too few examples for a mini-batch size, or cannot be corrupted.
        ModelError: A network cannot be built or evaluated; the message names the key to change.
        CheckpointStoreError: The checkpoint store does not accept files.
    """
    check_model_and_data(study)
    environment.checkpoints.check_access()
    data = load_prepared_data(study.data, environment.data, environment.cache, "cpu")
    _check_conditions(study, data)
    boundary = boundary_trials(study)
    probe_sizes = () if study.probes is None else study.probes.batch_sizes or ()
    trial_sizes = (size for trial in boundary for size in (trial.training.batch_size, *trial.batch_sizes))
    for batch_size in {*probe_sizes, *trial_sizes}:
        data.check_batch_size(batch_size)
    checked_networks = set()
    for trial in boundary:
        if study.layers is not None:
            examples = len(data.splits[Split.VALIDATION][1])
            assign_folds(ceil(examples / trial.training.batch_size), study.layers.folds)
        if (trial.arm.method, trial.model) not in checked_networks:
            checked_networks.add((trial.arm.method, trial.model))
            network = build_network(trial, data)
            find_norms(network)
            if study.model.name not in MODELS:
                _check_example_independence(study.model.name, network, data, trial.training.batch_size)
            if study.layers is not None:
                check_layers(network, study.layers)
        if trial.training.augmentation is not None:
            Augmentation(trial.training.augmentation, data.input_shape, torch.Generator())
    return tuple(f"{study.data.name}: {remark}" for remark in data.remarks)


def _check_conditions(study: StudySpec, data: PreparedData) -> None:
    """Raise DataError unless the images can be evaluated under every condition of the study."""
    try:
        check_conditions(data, study.evaluation.conditions)
    except DataError as error:
        raise DataError(f"evaluation.conditions with the data set {study.data.name}: {error}") from error


def _check_example_independence(name: str, network: nn.Module, data: PreparedData, batch_size: int) -> None:
    """Raise ModelError unless the network can be evaluated in one pass, before it is trained."""
    inputs = data.splits[Split.TRAIN][0]
    second_batch = inputs[batch_size : 2 * batch_size]
    try:
        check_independence(network, inputs[:batch_size], second_batch if len(second_batch) == batch_size else None)
    except ModelError as error:
        raise ModelError(
            f"the model {name} cannot be evaluated in one pass, as studies are: {error}. Remove the layers that mix "
            "examples; one_pass=False is for evaluate_configurations, in Python"
        ) from None
