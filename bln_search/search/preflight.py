"""Preflight checks of a study: find what will fail before anything is trained or stored."""

from __future__ import annotations

from math import ceil

import torch
from torch import nn

from bln_search.adaptation.arms import check_method_adapts_network
from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError
from bln_search.core.registry import find_model_data_mismatch
from bln_search.data.catalog import get_catalog_entry
from bln_search.data.conditions import check_conditions_on_examples
from bln_search.data.input_shape import require_single_tensor_for_purpose
from bln_search.data.prepared import PreparedData
from bln_search.data.text_lengths import load_and_check_text_lengths
from bln_search.evaluation.checks.independence import check_example_independence
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.models.factory import check_model_name_and_options
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.search.layers.search import assign_mini_batches_to_folds
from bln_search.search.layers.trial_search import check_network_is_searchable
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import list_arms_of_adaptation, make_representative_trial_specs
from bln_search.tasks.plugin import check_plugin_targets
from bln_search.training.augmentation import Augmentation
from bln_search.training.initialization import initialize_for_training_run
from bln_search.training.step_precision import TrainingForward


def check_model_fits_data(study: StudySpec) -> None:
    """Raise DataError or ModelError unless the data set and the model exist and fit together.

    The model must take its options and, if both names are built in, this kind of data.
    """
    get_catalog_entry(study.data.name)
    check_model_name_and_options(study.model.name, study.model.model_dump(exclude={"name"}, exclude_none=True))
    problem = find_model_data_mismatch(study.model.name, study.data.name)
    if problem is not None:
        raise ModelError(problem)


def _check_task_fits_data(study: StudySpec, data: PreparedData) -> None:
    """Raise DataError unless the labels are made for the task; those of a plugin are known only now."""
    task = study.resolved_task.name
    if study.resolved_task.built_in_name is None:
        check_plugin_targets(
            task, {split.value: targets for split, (_, targets) in data.splits.items()}, data.num_outputs
        )
    elif data.task != task:
        raise DataError(f"the labels of {study.data.name} are made for {data.task}, the study for {task}: change task")


def run_preflight_checks(study: StudySpec, environment: ExecutionEnvironment) -> tuple[str, ...]:
    """Load the data, check the mini-batch sizes, build every arm's network once, and write to the checkpoint store.

    Args:
        study: The study.
        environment: Where its trials will run.

    Returns:
        Remarks on the data set that matter for its figures.

    Raises:
        DataError: The data set is missing, has too few examples for a mini-batch size, or cannot be corrupted or have
            texts of another length.
        ModelError: A network cannot be built or evaluated; the message names the key to change.
    """
    check_model_fits_data(study)
    data = load_and_prepare_data(study.data, environment.data, environment.cache, "cpu")
    _check_task_fits_data(study, data)
    _check_conditions_are_evaluable(study, data)
    boundary = make_representative_trial_specs(study)
    probe_sizes = () if study.probes is None else study.probes.batch_sizes or ()
    trial_sizes = (size for trial in boundary for size in (trial.training.batch_size, *trial.inference_batch_sizes))
    for batch_size in {*probe_sizes, *trial_sizes}:
        data.check_batch_size(batch_size)
    checked_networks = set()
    for trial in boundary:
        if study.layers is not None:
            require_single_tensor_for_purpose(data.splits[Split.VALIDATION][0][:1], "layers")
            examples = len(data.splits[Split.VALIDATION][1])
            assign_mini_batches_to_folds(ceil(examples / trial.training.batch_size), study.layers.folds)
        if (trial.arm.method, trial.model) not in checked_networks:
            checked_networks.add((trial.arm.method, trial.model))
            network = build_initialized_network(trial, data)
            get_norms_by_name(network)
            TrainingForward(network, trial.training)
            if study.model.name not in BUILT_IN_MODELS:
                _check_examples_are_independent(study.model.name, network, data, trial.training.batch_size)
            if study.layers is not None:
                check_network_is_searchable(network, study.layers)
            for adaptation in list_arms_of_adaptation(trial):
                check_method_adapts_network(network, adaptation.name, adaptation.own_options)
        if trial.training.augmentation is not None:
            Augmentation(trial.training.augmentation, data.input_shape, torch.Generator())
        if trial.training.initialization is not None:
            initialize_for_training_run(build_initialized_network(trial, data), data, trial.training, seed=trial.seed)
    return tuple(f"{study.data.name}: {remark}" for remark in data.remarks)


def _check_conditions_are_evaluable(study: StudySpec, data: PreparedData) -> None:
    """Raise DataError unless the data can be evaluated under every condition of the study."""
    try:
        check_conditions_on_examples(data, study.evaluation.conditions)
    except DataError as error:
        raise DataError(f"evaluation.conditions with the data set {study.data.name}: {error}") from error
    load_and_check_text_lengths(data, study.evaluation.lengths)


def _check_examples_are_independent(name: str, network: nn.Module, data: PreparedData, batch_size: int) -> None:
    """Raise ModelError unless the network can be evaluated in one pass, before it is trained."""
    inputs = data.splits[Split.TRAIN][0]
    second_batch = inputs[batch_size : 2 * batch_size]
    try:
        check_example_independence(
            network, inputs[:batch_size], second_batch if len(second_batch) == batch_size else None
        )
    except ModelError as error:
        raise ModelError(
            f"the model {name} cannot be evaluated in one pass, as studies are: {error}. Remove the layers that mix "
            "examples; one_pass=False is for evaluate_configurations, in Python"
        ) from None
