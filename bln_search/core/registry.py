"""Models, data sets, corruptions, adaptations and replacements of layers, and which of them fit together.

This module imports none of them. A package adds others by entry points, see `docs/plugins.md`. For tasks see
`bln_search.core.task_plugin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bln_search.core.adaptation_info import AdaptationInfo
from bln_search.core.built_in_adaptations import BUILT_IN_ADAPTATIONS
from bln_search.core.built_in_data_sets import BUILT_IN_DATA_SETS
from bln_search.core.built_in_models import BUILT_IN_MODELS
from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.errors import DataError, ModelError
from bln_search.core.extension_point import PAPERS, ExtensionPoint
from bln_search.core.model_info import ModelInfo
from bln_search.core.task_plugin import find_task_description
from bln_search.core.tasks import TaskName

_CORRUPTIONS = "bln_search.data.corruptions"

MODELS = ExtensionPoint(
    "model",
    ModelError,
    BUILT_IN_MODELS,
    "bln_search.models",
    ModelInfo,
    "bln_search.model_infos",
    packages=dict.fromkeys(
        ("allconv", "attentive_reader", "draw", "handwriting", "order_embeddings", "skip_thoughts"), PAPERS
    ),
)

DATA_SETS = ExtensionPoint(
    "data set",
    DataError,
    BUILT_IN_DATA_SETS,
    "bln_search.data_sets",
    DataSetInfo,
    "bln_search.data_set_infos",
    packages=dict.fromkeys(
        (
            *("imdb_cloze", "imdb_sentences", "mnist_binarized", "mnist_pair_captions", "mnist_pair_digits"),
            *("mnist_pairs", "mnist_pen_tracks"),
        ),
        PAPERS,
    ),
)

CORRUPTIONS = ExtensionPoint[str](
    "corruption",
    DataError,
    {
        "brightness": f"{_CORRUPTIONS}.weather:brightness",
        "contrast": f"{_CORRUPTIONS}.digital:contrast",
        "defocus_blur": f"{_CORRUPTIONS}.blur:defocus_blur",
        "elastic_transform": f"{_CORRUPTIONS}.elastic_transform:elastic_transform",
        "fog": f"{_CORRUPTIONS}.weather:fog",
        "frost": f"{_CORRUPTIONS}.frost:frost",
        "gaussian_noise": f"{_CORRUPTIONS}.noise:gaussian_noise",
        "glass_blur": f"{_CORRUPTIONS}.glass_blur:glass_blur",
        "impulse_noise": f"{_CORRUPTIONS}.noise:impulse_noise",
        "jpeg": f"{_CORRUPTIONS}.digital:jpeg",
        "motion_blur": f"{_CORRUPTIONS}.blur:motion_blur",
        "pixelate": f"{_CORRUPTIONS}.digital:pixelate",
        "shot_noise": f"{_CORRUPTIONS}.noise:shot_noise",
        "snow": f"{_CORRUPTIONS}.snow:snow",
        "zoom_blur": f"{_CORRUPTIONS}.zoom_blur:zoom_blur",
    },
    "bln_search.corruptions",
)
"""Corruptions, whose description is the place of the function."""

ADAPTATIONS = ExtensionPoint(
    "adaptation",
    ModelError,
    BUILT_IN_ADAPTATIONS,
    info_type=AdaptationInfo,
    info_group="bln_search.adaptations",
)
"""Methods of test-time adaptation."""

NORM_LAYER_REPLACERS = ExtensionPoint[Any]("replacement", ModelError, {}, "bln_search.norm_layers")
"""Functions of packages that replace normalization layers, by the path of the layer's class."""


_TASKS_OF_PAPERS: Mapping[str, str] = {
    "imdb_sentences": TaskName.LANGUAGE_MODEL,
    "mnist_binarized": TaskName.DENSITY,
    "mnist_pair_captions": "retrieval",
    "mnist_pair_digits": TaskName.MULTI_LABEL,
    "mnist_pen_tracks": TaskName.DENSITY,
}
"""For stored studies whose data set is not installed here."""


def find_data_set_task(name: str) -> str:
    """What the labels of a data set are made for; a classification where it does not say."""
    info = DATA_SETS.find_info(name)
    return _TASKS_OF_PAPERS.get(name, TaskName.CLASSIFICATION) if info is None else info.task


def list_text_models() -> list[str]:
    """The names of the models that take token ids as their only input."""
    infos = {name: MODELS.find_info(name) for name in MODELS.list_names()}
    return [name for name, info in infos.items() if info and info.takes_token_ids and not info.takes_several_inputs]


def find_model_problem(name: str, options: set[str]) -> str | None:
    """Why there is no model with this name and these options; None if there is, or if its options are not known."""
    info = MODELS.find_info(name)
    unknown = [] if info is None else sorted(options - info.all_options)
    return f"the model {name} has no option {unknown[0]!r}: remove it" if unknown else MODELS.find_problem(name)


def find_model_data_mismatch(model: str, data: str) -> str | None:
    """Why this model cannot take this data set; None if it can, or if one of them has no description."""
    info, data_info = MODELS.find_info(model), DATA_SETS.find_info(data)
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
    suitable = {task} if find_task_description(task).has_models_of_its_own else {task, ""}
    info = MODELS.find_info(model)
    if info is None or info.task in suitable:
        return None
    infos = {name: MODELS.find_info(name) for name in MODELS.list_names()}
    choice = [name for name, other in infos.items() if other is not None and other.task in suitable]
    advice = f"choose one of {', '.join(choice)}" if choice else "install a package with a model for it"
    return f"the model {model} cannot be trained for {task}: {advice}, or other data"


def find_task_data_mismatch(task: str, data: str) -> str | None:
    """Why networks cannot be trained for this task on this data set; None if they can.

    Data sets without a description, and tasks that are not built in, are checked when the study starts.
    """
    info = DATA_SETS.find_info(data)
    if isinstance(task, TaskName) and info is not None and info.task != task:
        return f"the labels of {data} are made for {info.task}, not for {task}: leave task out, or choose other data"
    return None
