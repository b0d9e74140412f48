"""Validation conditions by name: labelled data of different distributions, under which a network is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bln_search.api.inputs.role_loader import Loader
from bln_search.core.blend import POPULATION_NAME
from bln_search.core.enums import Split
from bln_search.ranking.selection.condition_criteria import Criterion

_COLUMNS = ("verdict", "configuration", "population", "batch")

_L = TypeVar("_L", bound=Loader)
_M = TypeVar("_M", bound=Loader)


@dataclass(frozen=True)
class SplitLoaders(Generic[_L]):
    """The loaders of one condition.

    Attributes:
        name: Name of the condition; None for a single condition without a name.
        validation: Mini-batches whose loss ranks the rows.
        test: Mini-batches of the test split; None without one.
    """

    name: str | None
    validation: _L
    test: _L | None

    def iter_splits_with_loaders(self) -> Iterator[tuple[Split, _L, str]]:
        """Each split with its loader and with the argument that gave it, for messages."""
        for split, loader in ((Split.VALIDATION, self.validation), (Split.TEST, self.test)):
            if loader is not None:
                yield split, loader, self._argument_name(split)

    def map_loaders(self, function: Callable[[_L, str], _M]) -> SplitLoaders[_M]:
        """The same condition with a function applied to each loader and the name of its argument."""
        validation = function(self.validation, self._argument_name(Split.VALIDATION))
        test = None if self.test is None else function(self.test, self._argument_name(Split.TEST))
        return SplitLoaders(self.name, validation, test)

    def _argument_name(self, split: Split) -> str:
        return f"{split}_loader" if self.name is None else f"{split}_loader[{self.name!r}]"


def parse_condition_loaders(
    validation: Loader | Mapping[str, Loader], test: Loader | Mapping[str, Loader] | None
) -> tuple[SplitLoaders[Loader], ...]:
    """The loaders of each condition, in their order; one without a name if `validation` is a single loader.

    Raises:
        ValueError: A name is not possible, there is no condition, or the test loaders have other names.
    """
    if isinstance(test, Mapping) and not isinstance(validation, Mapping):
        raise ValueError(  # noqa: TRY004  # each type is possible, and they do not fit each other
            "test_loader has conditions and validation_loader has none: give both as dictionaries with the same names, "
            "or both as loaders"
        )
    if not isinstance(validation, Mapping):
        return (SplitLoaders(None, validation, test),)
    if not validation:
        raise ValueError("validation_loader names no condition: give at least one, as in {'clean': validation_loader}")
    for name in validation:
        _check_condition_name(name)
    if test is not None and not (isinstance(test, Mapping) and test.keys() == validation.keys()):
        names = ", ".join(map(str, test)) if isinstance(test, Mapping) else "a single loader"
        raise ValueError(
            f"validation_loader has the conditions {', '.join(validation)}, and test_loader has {names}: give a test "
            "loader for each condition, or none"
        )
    tests = test if isinstance(test, Mapping) else {}
    return tuple(SplitLoaders(name, loader, tests.get(name)) for name, loader in validation.items())


def _check_condition_name(name: object) -> None:
    """Raise ValueError unless this can be the name of a condition."""
    if not isinstance(name, str) or not POPULATION_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not the name of a condition: use letters, digits, _ and -, beginning with a letter"
        )
    if name in _COLUMNS:
        raise ValueError(f"{name!r} is a column of every table: choose another name for the condition")
    if name in list(Criterion):
        raise ValueError(f"{name!r} is a criterion over conditions: choose another name for the condition")
