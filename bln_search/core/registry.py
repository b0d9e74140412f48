"""Names of models, data sets and image corruptions: built-in ones, and plugins of installed packages.

This module imports no model, data set or corruption. A package adds a model with the entry point group
`bln_search.models`, a data set with `bln_search.data_sets`, a corruption with `bln_search.corruptions`, and the
replacement of a normalization layer with `bln_search.norm_layers`. For tasks see `bln_search.core.task_plugin`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from bln_search.core.tasks import TaskName

_RECURRENT = frozenset(
    {
        *("widths", "embedding", "dense", "dense_weights", "dropout", "recurrent_dropout"),
        *("normalize", "gain", "longer_sequences", "mask_padding"),
    }
)

MODELS: dict[str, frozenset[str]] = {
    "allconv": frozenset({"widths"}),
    "attentive_reader": frozenset({"widths", "embedding", "normalize", "gain"}),
    "draw": frozenset({"widths", "glimpses", "latent", "attention", "normalize", "gain"}),
    "gru": _RECURRENT,
    "handwriting": frozenset({"widths", "windows", "mixtures", "gain"}),
    "lenet": frozenset(),
    "lstm": _RECURRENT,
    "mlp": frozenset({"widths", "activation", "placement", "output_norm"}),
    "nin": frozenset(),
    "order_embeddings": frozenset({"widths", "embedding", "gain"}),
    "resnet8": frozenset({"widths"}),
    "resnet18": frozenset(),
    "resnet20": frozenset({"widths"}),
    "resnet34": frozenset(),
    "resnet50": frozenset(),
    "resnet56": frozenset({"widths"}),
    "rnn": _RECURRENT,
    "skip_thoughts": frozenset({"widths", "embedding", "gain"}),
    "vgg16": frozenset({"dense_norms"}),
}
"""Built-in models with their options."""

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

_DATA_OF_MODELS = {
    "attentive_reader": "imdb_cloze",
    "draw": "mnist_binarized",
    "handwriting": "mnist_pen_tracks",
    "order_embeddings": "mnist_pair_captions",
    "skip_thoughts": "imdb_sentences",
}
"""Built-in models for one built-in data set only."""

_MODEL_OF_DATA = {
    "imdb_sentences": "skip_thoughts",
    "mnist_pair_captions": "order_embeddings",
    "mnist_pen_tracks": "handwriting",
}
"""Built-in data sets for one built-in model only."""

LAZY_DATA_SETS = frozenset({"imagenet"})
"""Built-in data sets whose images are decoded one mini-batch at a time."""

TEXT_MODELS = frozenset(name for name, options in MODELS.items() if "embedding" in options)
"""Built-in models that take token ids."""

DENSITY_MODELS = frozenset({"draw", "handwriting"})
"""Built-in models that give the negative log-likelihood of an example."""

_MODELS_OF_TASKS = {
    TaskName.DENSITY: DENSITY_MODELS,
    TaskName.RETRIEVAL: frozenset({"order_embeddings"}),
}
"""Built-in models for one task only, by the task."""

RECURRENT_MODELS = TEXT_MODELS | DENSITY_MODELS
"""Built-in models with recurrent layers."""

MODELS_WITH_NORMS_IN_CELLS = frozenset({"attentive_reader", "draw", "handwriting", "order_embeddings", "skip_thoughts"})
"""Built-in models whose normalization layers are inside recurrent cells only."""

MODELS_OF_SEVERAL_INPUTS = frozenset({"handwriting", "order_embeddings"})
"""Built-in models whose examples have several inputs with names."""

DATA_SETS_OF_SEVERAL_INPUTS = frozenset({"mnist_pair_captions", "mnist_pen_tracks"})
"""Built-in data sets whose examples have several inputs with names."""

TEXTS_OF_ONE_LENGTH = frozenset({"imdb_cloze", "imdb_sentences"})
"""Built-in data sets of token ids whose inputs cannot have another length."""


@lru_cache(maxsize=1)
def plugin_model_entry_points() -> dict[str, EntryPoint]:
    """Models of installed packages."""
    return {point.name: point for point in entry_points(group="bln_search.models") if point.name not in MODELS}


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


def find_model_problem(name: str, options: set[str]) -> str | None:
    """Why there is no model with this name and these options; None if there is. Options of plugins are not checked."""
    if name in MODELS:
        unknown = sorted(options - MODELS[name])
        return f"the model {name} has no option {unknown[0]!r}: remove it" if unknown else None
    if name in plugin_model_entry_points():
        return None
    return f"there is no model {name!r}; choose one of {', '.join(list_model_names())}"


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
    """Why this model cannot take this data set; None if it can, or if one of them is not built in."""
    if data in TEXT_DATA_SETS and model in MODELS and model not in TEXT_MODELS:
        choice = ", ".join(sorted(TEXT_MODELS - MODELS_OF_SEVERAL_INPUTS))
        return f"the model {model} takes measurements, {data} consists of token ids: choose one of {choice}"
    if model in MODELS and data in DATA_SETS:
        expected = _DATA_OF_MODELS.get(model)
        if expected is not None and expected != data:
            return f"the model {model} is for the data set {expected} only, not for {data}"
        only = _MODEL_OF_DATA.get(data, model)
        if only != model:
            return f"the data set {data} is for the model {only} only, not for {model}"
    return None


def find_model_task_mismatch(model: str, task: str) -> str | None:
    """Why this model cannot be trained for this task; None if it can, or if it is not built in."""
    others = frozenset(MODELS).difference(*_MODELS_OF_TASKS.values())
    suitable = _MODELS_OF_TASKS.get(task, others) if isinstance(task, TaskName) else others
    if model not in MODELS or model in suitable:
        return None
    choice = sorted(suitable)
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
