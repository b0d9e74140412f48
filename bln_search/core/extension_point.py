"""What studies name: built-in models, data sets, tasks and corruptions, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from bln_search.core.errors import DataError, ModelError
from bln_search.core.similar_names import format_similar_name

PAPERS = "the package bln-search-papers, which is not installed here: run `pip install ./papers` in the repository"
"""Where names are that only the experiments of a paper use."""

Info = TypeVar("Info")


@dataclass
class ExtensionPoint(Generic[Info]):
    """Things of one kind. Their descriptions are known without importing what they describe.

    Attributes:
        kind: Of the things, as `model`.
        error: Raised for one that is not known or cannot be loaded.
        built_in: Description of each built-in one.
        group: Entry point group of the objects of packages that have no description; empty for none.
        info_type: Type of a description.
        info_group: Entry point group of the descriptions of packages; empty for none.
        packages: Of names that are not built in, which package has them, and how it is installed.
    """

    kind: str
    error: type[DataError | ModelError]
    built_in: Mapping[str, Info]
    group: str = ""
    info_type: type[Info] | None = None
    info_group: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages."""
        points = (*entry_points(group=self.group), *entry_points(group=self.info_group))
        return {point.name: point for point in points if point.name not in self.built_in}

    def list_names(self) -> list[str]:
        """All names."""
        return sorted({*self.built_in, *self.plugins})

    def load_info(self, name: str) -> Info | None:
        """The description of a thing; None for one of a package that has none. Raises `error`."""
        if name in self.built_in:
            return self.built_in[name]
        if name in self.packages and name not in self.plugins:
            raise self.error(f"the {self.kind} {name} is in {self.packages[name]}")
        if name not in self.plugins:
            known = self.list_names()
            raise self.error(
                f"there is no {self.kind} {name!r}; choose one of {', '.join(known)}{format_similar_name(name, known)}"
            )
        if self.info_type is None or self.has_no_description(name):
            return None
        info = self.load_object(name)
        if not isinstance(info, self.info_type):
            path = f"{self.info_type.__module__}.{self.info_type.__name__}"
            raise self.error(f"the {self.kind} {name} of an installed package is not a {path}")
        return info

    def has_no_description(self, name: str) -> bool:
        """Whether the thing is of an installed package that does not describe it."""
        return name in self.plugins and self.plugins[name].group != self.info_group

    def find_info(self, name: str) -> Info | None:
        """The description of a thing; None where it is not known."""
        return None if self.find_problem(name) else self.load_info(name)

    def find_problem(self, name: str) -> str | None:
        """Why there is no thing with this name; None if there is."""
        try:
            self.load_info(name)
        except self.error as error:
            return str(error)
        return None

    def load_object(self, name: str, place: str | None = None) -> Any:
        """Import the object at a place, or without one that of an entry point. Raises `error`."""
        point = self.plugins[name] if place is None else EntryPoint(name, place, self.group)
        try:
            return point.load()
        except Exception as error:
            message = f"the {self.kind} {name} of an installed package cannot be loaded: {error}"
            raise self.error(message) from error

    def list_plugin_modules(self, name: str, place: str | None = None) -> set[str]:
        """The modules of a package that register the thing and define it."""
        return {self.plugins[name].module, *([] if place is None else [place.partition(":")[0]])}
