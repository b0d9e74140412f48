"""What can be known to fail before anything is trained or written down."""

from __future__ import annotations

from math import ceil

import torch
from torch import nn

from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.registry import MODELS, pair_problem
from bln_search.data.catalog import find_entry
from bln_search.data.prepared import PreparedData
from bln_search.evaluation.independence import check_independence
from bln_search.execution.environment import Place, prepared_data
from bln_search.execution.trial import build_network
from bln_search.models.factory import check_model
from bln_search.norms.network_layers import find_norms
from bln_search.search.layers.search import fold_of
from bln_search.search.layers.trial_search import check_layers
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import border_trials
from bln_search.training.augmentation import Augmentation


def check_names(study: StudySpec) -> None:
    """Raise DataError or ModelError unless there are a data set and a model of these names, with these options.

    And unless the model takes such data, as far as names tell.
    """
    find_entry(study.data.name)
    check_model(study.model.name, study.model.model_dump(exclude={"name"}, exclude_none=True))
    problem = pair_problem(study.model.name, study.data.name)
    if problem is not None:
        raise ModelError(problem)


def check_study(study: StudySpec, place: Place) -> tuple[str, ...]:
    """Load the data, check the mini-batch sizes, build every arm's network once, and see that checkpoints can be kept.

    Returns what one should know of the data before believing figures of it.
    Raises DataError or ModelError, naming what to change in the study file; CheckpointStoreError.
    """
    check_names(study)
    place.checkpoints.check()
    data = prepared_data(study.data, place.data, place.cache, "cpu")
    borders = border_trials(study)
    probed = () if study.probes is None else study.probes.batch_sizes or ()
    for size in {*probed, *(size for trial in borders for size in (trial.training.batch_size, *trial.batch_sizes))}:
        data.check_batch_size(size)
    seen = set()
    for trial in borders:
        if study.layers is not None:
            validation = len(data.splits[Split.VALIDATION][1])
            fold_of(ceil(validation / trial.training.batch_size), study.layers.folds)
        if (trial.arm.method, trial.model) not in seen:
            seen.add((trial.arm.method, trial.model))
            network = build_network(trial, data)
            find_norms(network)
            if study.model.name not in MODELS:
                _check_one_pass(study.model.name, network, data, trial.training.batch_size)
            if study.layers is not None:
                check_layers(network, study.layers)
        if trial.training.augmentation is not None:
            Augmentation(trial.training.augmentation, data.input_shape, torch.Generator())
    return tuple(f"{study.data.name}: {remark}" for remark in data.remarks)


def _check_one_pass(name: str, network: nn.Module, data: PreparedData, batch_size: int) -> None:
    """A study evaluates in one pass: better refused now than after its training."""
    inputs = data.splits[Split.TRAIN][0]
    other = inputs[batch_size : 2 * batch_size]
    try:
        check_independence(network, inputs[:batch_size], other if len(other) == batch_size else None)
    except ModelError as error:
        raise ModelError(
            f"the model {name} cannot be evaluated in one pass, as studies are: {error}. Leave out of it what mixes "
            "examples; one_pass=False is for evaluate_configurations, in Python"
        ) from None
