"""Names of models, data sets and image corruptions: built-in ones, and plugins of installed packages.

This module imports no model, data set or corruption. A package adds a model with the entry point group
`bln_search.models`, a data set with `bln_search.data_sets`, a corruption with `bln_search.corruptions`, and the
replacement of a normalization layer with `bln_search.norm_layers`. For tasks see `bln_search.core.task_plugin`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from bln_search.core.built_in_models import MODELS
from bln_search.core.errors import ModelError
from bln_search.core.model_info import ModelInfo
from bln_search.core.tasks import TaskName

MODEL_INFOS = "bln_search.model_infos"
"""Entry point group of descriptions of models."""

OPTIONS_OF_TASKS = frozenset({"per_token"})
"""Options of models that the task of a study sets, not its specification."""

DATA_SETS = (
    *("cifar10", "cifar100", "diabetes", "digits", "imagenet", "imdb", "imdb_case", "imdb_cloze"),
    *("imdb_next_word", "imdb_sentences"),
    *("mnist", "mnist_binarized", "mnist_pair_captions", "mnist_pair_digits", "mnist_pairs", "mnist_pen_tracks"),
)
"""Built-in data sets."""

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

TEXT_LENGTHS = {"imdb": 80, "imdb_case": 80, "imdb_cloze": 96, "imdb_next_word": 80, "imdb_sentences": 48}
"""Built-in data sets of token ids, with the number of token ids of an input."""

TEXT_DATA_SETS = frozenset(TEXT_LENGTHS)
"""Built-in data sets of token ids."""

_TASKS = {
    "diabetes": TaskName.REGRESSION,
    "imdb_case": TaskName.TOKEN_CLASSIFICATION,
    "imdb_next_word": TaskName.LANGUAGE_MODEL,
    "imdb_sentences": TaskName.LANGUAGE_MODEL,
    "mnist_binarized": TaskName.DENSITY,
    "mnist_pair_captions": TaskName.RETRIEVAL,
    "mnist_pair_digits": TaskName.MULTI_LABEL,
    "mnist_pen_tracks": TaskName.DENSITY,
}

_MODEL_OF_DATA = {
    "imdb_sentences": "skip_thoughts",
    "mnist_pair_captions": "order_embeddings",
    "mnist_pen_tracks": "handwriting",
}
"""Built-in data sets for one built-in model only."""

LAZY_DATA_SETS = frozenset({"imagenet"})
"""Built-in data sets whose images are decoded one mini-batch at a time."""

DATA_SETS_OF_SEVERAL_INPUTS = frozenset({"mnist_pair_captions", "mnist_pen_tracks"})
"""Built-in data sets whose examples have several inputs with names."""

TEXTS_OF_ONE_LENGTH = frozenset({"imdb_cloze", "imdb_sentences"})
"""Built-in data sets of token ids whose inputs cannot have another length."""


@lru_cache(maxsize=1)
def plugin_model_entry_points() -> dict[str, EntryPoint]:
    """Models of installed packages: descriptions, and factories of models without a description."""
    points = (*entry_points(group="bln_search.models"), *entry_points(group=MODEL_INFOS))
    return {point.name: point for point in points if point.name not in MODELS}


@lru_cache(maxsize=1)
def plugin_data_set_entry_points() -> dict[str, EntryPoint]:
    """Data sets of installed packages."""
    return {point.name: point for point in entry_points(group="bln_search.data_sets") if point.name not in DATA_SETS}


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
    if point.group != MODEL_INFOS:
        return None
    try:
        info = point.load()
    except Exception as error:
        raise ModelError(f"the model {name} of an installed package cannot be loaded: {error}") from error
    if not isinstance(info, ModelInfo):
        raise ModelError(f"the model {name} of an installed package is not a bln_search.core.model_info.ModelInfo")
    return info


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


def find_data_set_problem(name: str) -> str | None:
    """Why there is no data set with this name; None if there is."""
    if name in DATA_SETS or name in plugin_data_set_entry_points():
        return None
    return f"there is no data set {name!r}; choose one of {', '.join(list_data_set_names())}"


def find_corruption_problem(name: str) -> str | None:
    """Why there is no corruption with this name; None if there is."""
    if name in CORRUPTIONS or name in plugin_corruption_entry_points():
        return None
    return f"there is no corruption {name!r}; choose one of {', '.join(list_corruption_names())}"


def find_model_data_mismatch(model: str, data: str) -> str | None:
    """Why this model cannot take this data set; None if it can, or if one of them has no description."""
    info = find_model_info(model)
    if info is None:
        return None
    if data in TEXT_DATA_SETS and not info.takes_token_ids:
        choice = ", ".join(list_text_models())
        return f"the model {model} takes measurements, {data} consists of token ids: choose one of {choice}"
    if data in DATA_SETS:
        if info.data_sets and data not in info.data_sets:
            expected = ", ".join(sorted(info.data_sets))
            return f"the model {model} is for the data set {expected} only, not for {data}"
        only = _MODEL_OF_DATA.get(data, model)
        if only != model:
            return f"the data set {data} is for the model {only} only, not for {model}"
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


def find_task_of_built_in_data_set(data: str) -> TaskName | None:
    """The task that the labels of a data set are made for; None for a data set that is not built in."""
    return _TASKS.get(data, TaskName.CLASSIFICATION) if data in DATA_SETS else None


def find_task_data_mismatch(task: str, data: str) -> str | None:
    """Why networks cannot be trained for this task on this data set; None if they can.

    Data sets and tasks that are not built in are checked when the study starts.
    """
    expected = find_task_of_built_in_data_set(data)
    if isinstance(task, TaskName) and expected is not None and expected is not task:
        return f"the labels of {data} are made for {expected}, not for {task}: leave task out, or choose other data"
    return None
