"""The data of an evaluation: populations, and conditions with a validation and a test split, by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.core.blend import POPULATION_NAME
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import DataError
from bln_search.data.inputs import can_slice_examples, concatenate_inputs, describe_example_shape, have_same_form
from bln_search.evaluation.batches import MiniBatch, iter_batches_filled_to_first_size, iter_mini_batches_with_fillers
from bln_search.ranking.selection.condition_criteria import Criterion
from bln_search.tasks.score import Score

_COLUMNS = ("verdict", "configuration", "population", "batch")

LoadersByCondition = Mapping[str | None, tuple[Loader, Loader | None]]
"""The validation and the test loader of each condition; a single condition may be without a name, None."""


@dataclass(frozen=True)
class Condition:
    """The loaders of one condition.

    Attributes:
        name: Name of the condition; None for a single condition without a name.
        validation: Mini-batches whose loss ranks the rows.
        test: Mini-batches of the test split; None without one.
    """

    name: str | None
    validation: RoleLoader
    test: RoleLoader | None

    @property
    def splits(self) -> list[tuple[Split, RoleLoader]]:
        """Each split with its loader."""
        of_test = [] if self.test is None else [(Split.TEST, self.test)]
        return [(Split.VALIDATION, self.validation), *of_test]


@dataclass(frozen=True)
class EvaluationData:
    """Loaders in their roles: populations by name, and conditions."""

    populations: Mapping[str, RoleLoader]
    conditions: tuple[Condition, ...]

    @staticmethod
    def from_loaders(
        populations: Mapping[str, Loader], conditions: LoadersByCondition, *, networks: int = 1
    ) -> EvaluationData:
        """The loaders with the names of their arguments; each of the networks reads all of them. No iteration begins.

        Warns (UserWarning) if a validation split is a test split too.

        Raises:
            DataError: A loader is no loader or an empty list, or an iterator that would be read more than once.
        """
        of_populations = {
            name: ("train_loader" if len(populations) == 1 else f"train_loader[{name!r}]", loader)
            for name, loader in populations.items()
        }
        of_splits = {
            (name, split): (f"{split}_loader" if name is None else f"{split}_loader[{name!r}]", loader)
            for name, loaders in conditions.items()
            for split, loader in zip((Split.VALIDATION, Split.TEST), loaders, strict=True)
            if loader is not None
        }
        readers = f"{networks} networks read it" if networks > 1 else None
        check_iterators_read_once([*of_populations.values(), *of_splits.values()], readers=readers)
        _warn_of_validation_as_test(of_splits)

        def make(named: tuple[str, Loader], *, compares_targets: bool = False) -> RoleLoader:
            name, loader = named
            return RoleLoader(loader, name, compares_readings=networks > 1, compares_targets=compares_targets)

        return EvaluationData(
            {name: make(named) for name, named in of_populations.items()},
            tuple(
                Condition(
                    name,
                    make(of_splits[name, Split.VALIDATION], compares_targets=len(conditions) > 1),
                    make(of_splits[name, Split.TEST]) if (name, Split.TEST) in of_splits else None,
                )
                for name in conditions
            ),
        )

    @property
    def loaders_of_all_splits(self) -> list[RoleLoader]:
        """The loaders of all conditions and splits."""
        return [loader for condition in self.conditions for _, loader in condition.splits]

    def check_splits_hold_largest_batch(self, adapter: BatchAdapter, batch_sizes: Sequence[int] | None) -> None:
        """Raise DataError if a split is known to have fewer examples than the largest mini-batch size."""
        for split in self.loaders_of_all_splits if batch_sizes is not None else ():
            examples = adapter.count_targets_of_list(split)
            if batch_sizes is not None and examples is not None:
                _check_split_holds_largest_batch(examples, batch_sizes, split.name)


def _warn_of_validation_as_test(of_splits: Mapping[tuple[str | None, Split], tuple[str, Loader]]) -> None:
    """Warn of the first validation loader that is a test loader too."""
    validation = {id(loader): name for (_, split), (name, loader) in of_splits.items() if split is Split.VALIDATION}
    for (_, split), (name, loader) in of_splits.items():
        if split is Split.TEST and id(loader) in validation:
            warnings.warn(
                f"{validation[id(loader)]} and {name} are the same object: the test figures are not independent of the "
                "choice of the row, and are optimistic. Give test data that validation does not contain",
                stacklevel=4,
            )
            return


def parse_population_loaders(loader: Loader | Mapping[str, Loader]) -> Mapping[str, Loader]:
    """The loaders of the populations by name; a single loader is `frozen`.

    Raises:
        ValueError: There is no loader, a name is not possible, or it is that of an estimate of the layers' own.
    """
    if not isinstance(loader, Mapping):
        return {PopulationEstimate.FROZEN: loader}
    if not loader:
        raise ValueError("train_loader names no population: give at least one, as in {'source': train_loader}")
    reserved = [str(estimate) for estimate in PopulationEstimate if estimate is not PopulationEstimate.FROZEN]
    for name in loader:
        _check_name(name, "a population")
        if name in reserved:
            raise ValueError(f"{name!r} is an estimate that layers collect in training: choose another name")
    return loader


def parse_condition_loaders(
    validation: Loader | Mapping[str, Loader], test: Loader | Mapping[str, Loader] | None
) -> LoadersByCondition:
    """The loaders of each condition, in their order; one without a name if `validation` is a single loader.

    Raises:
        ValueError: A name is not possible, there is no condition, or the test loaders have other names.
    """
    if not isinstance(validation, Mapping):
        if isinstance(test, Mapping):
            raise ValueError(  # noqa: TRY004  # each type is possible, and they do not fit each other
                "test_loader has conditions and validation_loader has none: give both as dictionaries with the same "
                "names, or both as loaders"
            )
        return {None: (validation, test)}
    if not validation:
        raise ValueError("validation_loader names no condition: give at least one, as in {'clean': validation_loader}")
    for name in validation:
        _check_name(name, "a condition")
        if name in _COLUMNS:
            raise ValueError(f"{name!r} is a column of every table: choose another name for the condition")
        if name in list(Criterion):
            raise ValueError(f"{name!r} is a criterion over conditions: choose another name for the condition")
    if test is not None and not (isinstance(test, Mapping) and test.keys() == validation.keys()):
        names = ", ".join(map(str, test)) if isinstance(test, Mapping) else "a single loader"
        raise ValueError(
            f"validation_loader has the conditions {', '.join(validation)}, and test_loader has {names}: give a test "
            "loader for each condition, or none"
        )
    tests = test if isinstance(test, Mapping) else {}
    return {name: (loader, tests.get(name)) for name, loader in validation.items()}


def _check_name(name: object, kind: str) -> None:
    if not isinstance(name, str) or not POPULATION_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of {kind}: use letters, digits, _ and -, beginning with a letter")


def load_split_into_memory(loader: RoleLoader, score: Score, adapter: BatchAdapter) -> list[MiniBatch]:
    """Load a split into memory; a shorter last mini-batch is filled up. Raises DataError for an empty split."""
    return list(iter_batches_filled_to_first_size(adapter.iter_input_target_pairs(loader, score)))


def iter_batches_by_size(
    batches: Iterator[MiniBatch], batch_sizes: Sequence[int] | None, name: str
) -> Iterator[tuple[int, Iterable[MiniBatch]]]:
    """Each inference mini-batch size with its mini-batches, of which there is at least one."""
    if batch_sizes is None:
        first = next(batches)
        yield len(first[0]), iter_batches_filled_to_first_size(chain([first], batches))
        return
    loaded = list(batches)
    _check_batches_concatenable(loaded, name)
    _check_split_holds_largest_batch(sum(len(y) for _, y in loaded), batch_sizes, name)
    inputs, targets = concatenate_inputs([x for x, _ in loaded]), torch.cat([y for _, y in loaded])
    for size in dict.fromkeys(batch_sizes):
        yield size, iter_mini_batches_with_fillers(inputs, targets, size)


def _check_split_holds_largest_batch(examples: int, batch_sizes: Sequence[int], name: str) -> None:
    largest = max(batch_sizes)
    if examples < largest:
        raise DataError(
            f"batch_sizes has {largest}, which is larger than the data of {name}, {examples} examples: lower it, or "
            "give more examples"
        )


def _check_batches_concatenable(batches: Sequence[MiniBatch], name: str) -> None:
    """Raise DataError unless examples of all mini-batches can be in one mini-batch."""
    first = batches[0][0]
    if not can_slice_examples(first):
        raise DataError(f"batch_sizes= needs tensors with the examples on their first axis; {name} yields others")
    other = next((inputs for inputs, _ in batches if not have_same_form(inputs, first)), None)
    if other is not None:
        raise DataError(
            f"batch_sizes= makes mini-batches of the examples of {name}, which differ in their shapes or constants: "
            f"{describe_example_shape(first)} and {describe_example_shape(other)}; give all examples "
            "one shape, or no batch_sizes="
        )
