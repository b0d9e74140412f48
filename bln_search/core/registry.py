"""The names a study may use: what is built in, and what installed packages add through entry points.

Names only: nothing is imported here. A package adds a model with the entry point group `bln_search.models`, a data set
with `bln_search.data_sets`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

_RECURRENT = frozenset(
    {"widths", "embedding", "dense", "dropout", "recurrent_dropout", "normalize", "gain", "dense_weights"}
)

MODELS: dict[str, frozenset[str]] = {
    "gru": _RECURRENT,
    "lenet": frozenset(),
    "lstm": _RECURRENT,
    "mlp": frozenset({"widths", "activation", "placement"}),
    "nin": frozenset(),
    "resnet8": frozenset({"widths"}),
    "resnet20": frozenset({"widths"}),
    "resnet56": frozenset({"widths"}),
    "rnn": _RECURRENT,
    "vgg16": frozenset(),
}
"""Networks that are built in, with the options each takes."""

DATA_SETS = ("cifar10", "digits", "imdb", "mnist")
"""Data sets that are built in."""

WORDS = frozenset({"imdb"})
"""Those of them that hold words."""

READERS = frozenset(name for name, options in MODELS.items() if "embedding" in options)
"""Built-in networks that take words."""


@lru_cache(maxsize=1)
def plugin_models() -> dict[str, EntryPoint]:
    """Networks that installed packages add."""
    return {one.name: one for one in entry_points(group="bln_search.models") if one.name not in MODELS}


@lru_cache(maxsize=1)
def plugin_data_sets() -> dict[str, EntryPoint]:
    """Data sets that installed packages add."""
    return {one.name: one for one in entry_points(group="bln_search.data_sets") if one.name not in DATA_SETS}


def models() -> list[str]:
    """Every network by name."""
    return sorted({*MODELS, *plugin_models()})


def data_sets() -> list[str]:
    """Every data set by name."""
    return sorted({*DATA_SETS, *plugin_data_sets()})


def model_problem(name: str, options: set[str]) -> str | None:
    """Why there is no such model; None where there is, as far as names tell."""
    if name in MODELS:
        unknown = sorted(options - MODELS[name])
        return f"the model {name} has no option {unknown[0]!r}: remove it" if unknown else None
    if name in plugin_models():
        return None
    return f"there is no model {name!r}; choose one of {', '.join(models())}"


def data_problem(name: str) -> str | None:
    """Why there is no such data set; None where there is."""
    if name in DATA_SETS or name in plugin_data_sets():
        return None
    return f"there is no data set {name!r}; choose one of {', '.join(data_sets())}"


def pair_problem(model: str, data: str) -> str | None:
    """Why this model cannot take this data set; None where it can, as far as names tell."""
    if data in WORDS and model in MODELS and model not in READERS:
        return f"the model {model} takes measurements, {data} holds words: choose one of {', '.join(sorted(READERS))}"
    return None
