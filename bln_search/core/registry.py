"""Names of models, data sets and image corruptions: built-in ones, and plugins of installed packages.

This module imports no model, data set or corruption. A package adds a model with the entry point group
`bln_search.models`, a data set with `bln_search.data_sets`, a corruption with `bln_search.corruptions`, and the
replacement of a normalization layer with `bln_search.norm_layers`. For tasks see `bln_search.core.task_plugin`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from bln_search.core.built_in_data_sets import DATA_SETS
from bln_search.core.built_in_models import MODELS
from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.core.model_info import ModelInfo
from bln_search.core.tasks import TaskName

MODEL_INFOS = "bln_search.model_infos"
"""Entry point group of descriptions of models."""

DATA_SET_INFOS = "bln_search.data_set_infos"
"""Entry point group of descriptions of data sets."""

_Info = TypeVar("_Info", ModelInfo, DataSetInfo)

OPTIONS_OF_TASKS = frozenset({"per_token"})
"""Options of models that the task of a study sets, not its specification."""

CORRUPTIONS = (
    "brightness",
    "contrast",
    "defocus_blur",
    "fog",
    "gaussian_noise",
    "impulse_noise",
    "jpeg",
    "motion_blur",
    "pixelate",
    "shot_noise",
)
"""Built-in corruptions of images."""


@lru_cache(maxsize=1)
def plugin_model_entry_points() -> dict[str, EntryPoint]:
    """Models of installed packages: descriptions, and factories of models without a description."""
    points = (*entry_points(group="bln_search.models"), *entry_points(group=MODEL_INFOS))
    return {point.name: point for point in points if point.name not in MODELS}


@lru_cache(maxsize=1)
def plugin_data_set_entry_points() -> dict[str, EntryPoint]:
    """Data sets of installed packages: descriptions, and catalogue entries of data sets without a description."""
    points = (*entry_points(group="bln_search.data_sets"), *entry_points(group=DATA_SET_INFOS))
    return {point.name: point for point in points if point.name not in DATA_SETS}


@lru_cache(maxsize=1)
def plugin_corruption_entry_points() -> dict[str, EntryPoint]:
    """Corruptions of installed packages."""
    return {
        point.name: point for point in entry_points(group="bln_search.corruptions") if point.name not in CORRUPTIONS
    }


@lru_cache(maxsize=1)
def plugin_norm_layer_replacer_entry_points() -> dict[str, EntryPoint]:
    """Functions of installed packages that replace normalization layers, by the path of the layer's class."""
    return {point.name: point for point in entry_points(group="bln_search.norm_layers")}


def list_model_names() -> list[str]:
    """The names of all models."""
    return sorted({*MODELS, *plugin_model_entry_points()})


def list_data_set_names() -> list[str]:
    """The names of all data sets."""
    return sorted({*DATA_SETS, *plugin_data_set_entry_points()})


def list_corruption_names() -> list[str]:
    """The names of all corruptions."""
    return sorted({*CORRUPTIONS, *plugin_corruption_entry_points()})


def _load_info(kind: type[_Info], what: str, point: EntryPoint, error_type: type[BlnSearchError]) -> _Info:
    """The description that a package registers. Raises the error if it cannot be loaded."""
    try:
        info = point.load()
    except Exception as error:
        raise error_type(f"the {what} {point.name} of an installed package cannot be loaded: {error}") from error
    if not isinstance(info, kind):
        path = f"{kind.__module__}.{kind.__name__}"
        raise error_type(f"the {what} {point.name} of an installed package is not a {path}")
    return info


def load_model_info(name: str) -> ModelInfo | None:
    """The description of a model; None for a model of an installed package without one.

    Raises:
        ModelError: There is no such model, or its description cannot be loaded.
    """
    if name in MODELS:
        return MODELS[name]
    point = plugin_model_entry_points().get(name)
    if point is None:
        raise ModelError(f"there is no model {name!r}; choose one of {', '.join(list_model_names())}")
    return _load_info(ModelInfo, "model", point, ModelError) if point.group == MODEL_INFOS else None


def find_model_info(name: str) -> ModelInfo | None:
    """The description of a model; None where it is not known."""
    try:
        return load_model_info(name)
    except ModelError:
        return None


def list_text_models() -> list[str]:
    """The names of the models that take token ids as their only input."""
    infos = {name: find_model_info(name) for name in list_model_names()}
    return [name for name, info in infos.items() if info and info.takes_token_ids and not info.takes_several_inputs]


def find_model_problem(name: str, options: set[str]) -> str | None:
    """Why there is no model with this name and these options; None if there is, or if its options are not known."""
    try:
        info = load_model_info(name)
    except ModelError as error:
        return str(error)
    unknown = [] if info is None else sorted(options - info.options)
    return f"the model {name} has no option {unknown[0]!r}: remove it" if unknown else None


def load_data_set_info(name: str) -> DataSetInfo | None:
    """The description of a data set; None for a data set of an installed package without one.

    Raises:
        DataError: There is no such data set, or its description cannot be loaded.
    """
    if name in DATA_SETS:
        return DATA_SETS[name]
    point = plugin_data_set_entry_points().get(name)
    if point is None:
        raise DataError(f"there is no data set {name!r}; choose one of {', '.join(list_data_set_names())}")
    return _load_info(DataSetInfo, "data set", point, DataError) if point.group == DATA_SET_INFOS else None


def find_data_set_info(name: str) -> DataSetInfo | None:
    """The description of a data set; None where it is not known."""
    try:
        return load_data_set_info(name)
    except DataError:
        return None


def find_data_set_problem(name: str) -> str | None:
    """Why there is no data set with this name; None if there is."""
    try:
        load_data_set_info(name)
    except DataError as error:
        return str(error)
    return None


def find_corruption_problem(name: str) -> str | None:
    """Why there is no corruption with this name; None if there is."""
    if name in CORRUPTIONS or name in plugin_corruption_entry_points():
        return None
    return f"there is no corruption {name!r}; choose one of {', '.join(list_corruption_names())}"


def find_model_data_mismatch(model: str, data: str) -> str | None:
    """Why this model cannot take this data set; None if it can, or if one of them has no description."""
    info, data_info = find_model_info(model), find_data_set_info(data)
    if info is None or data_info is None:
        return None
    if data_info.text_length is not None and not info.takes_token_ids:
        choice = ", ".join(list_text_models())
        return f"the model {model} takes measurements, {data} consists of token ids: choose one of {choice}"
    if info.data_sets and data not in info.data_sets and model not in data_info.models:
        return f"the model {model} is for the data set {', '.join(sorted(info.data_sets))} only, not for {data}"
    if data_info.models and model not in data_info.models:
        return f"the data set {data} is for the model {', '.join(sorted(data_info.models))} only, not for {model}"
    return None


def find_model_task_mismatch(model: str, task: str) -> str | None:
    """Why this model cannot be trained for this task; None if it can, or if it has no description."""
    info = find_model_info(model)
    if info is None:
        return None
    task_by_model = {name: other.task for name in list_model_names() if (other := find_model_info(name)) is not None}
    only = task if task in task_by_model.values() else ""
    if info.task == only:
        return None
    choice = [name for name, other_task in task_by_model.items() if other_task == only]
    return f"the model {model} cannot be trained for {task}: choose one of {', '.join(choice)}, or other data"


def find_task_of_data_set(data: str) -> str | None:
    """The task that the labels of a data set are made for; None for a data set without a description."""
    info = find_data_set_info(data)
    return None if info is None else info.task


def find_task_data_mismatch(task: str, data: str) -> str | None:
    """Why networks cannot be trained for this task on this data set; None if they can.

    Data sets without a description, and tasks that are not built in, are checked when the study starts.
    """
    expected = find_task_of_data_set(data)
    if isinstance(task, TaskName) and expected is not None and expected != task:
        return f"the labels of {data} are made for {expected}, not for {task}: leave task out, or choose other data"
    return None
