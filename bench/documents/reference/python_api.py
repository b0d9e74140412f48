"""The reference of the Python API: a directive of mkdocstrings for every public name."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import bln_search
from bln_search import client, norms
from bln_search.core import errors

_CLIENT = ("Client", "ServiceError")


def python_section() -> str:
    """Functions, layers and results of `bln_search`, the client of a service, and the errors."""
    public = bln_search.__all__
    parts = [
        ("Functions", _directives(bln_search, [name for name in public if name.islower()])),
        ("Results", _directives(bln_search, [name for name in public if not name.islower() and not name.isupper()])),
        ("Normalization layers", _layers([name for name in public if name.isupper()])),
        ("Client of a service", _directives(client, _CLIENT)),
        ("Errors", _directives(errors, error_names())),
    ]
    return "\n".join(f"## {title}\n\n{directives}" for title, directives in parts)


def _layers(names: Iterable[str]) -> str:
    """The base class with the arguments of all layers, and the layers; their methods are for the evaluation."""
    return "\n".join(
        [_directives(norms, ["Normalization"], members=False), _directives(bln_search, names, members=False)]
    )


def _directives(package: ModuleType, names: Iterable[str], *, members: bool = True) -> str:
    """A directive for each name of a package.

    Args:
        package: Package that the name is imported from; the heading contains it.
        names: Public names of the package.
        members: Whether methods and properties of classes are shown, with those of base classes of the package.
    """
    lines = []
    for name in names:
        value = getattr(package, name)
        lines += [
            f"::: {value.__module__}.{value.__qualname__}",
            "    options:",
            f"      heading: {package.__name__}.{name}",
            f"      toc_label: {name}",
            *(["      inherited_members: true"] if members else ["      members: false"]),
            "",
        ]
    return "\n".join(lines)


def error_names() -> list[str]:
    """The error classes of the package, in the order of their module."""
    return [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.BlnSearchError)
    ]
