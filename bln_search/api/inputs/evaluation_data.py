"""The data of an evaluation: populations and conditions, whose first mini-batches are checked before any pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.condition_loaders import SplitLoaders
from bln_search.api.inputs.peeked_loader import Loader, PeekedLoader, check_iterators_read_once
from bln_search.core.errors import DataError
from bln_search.tasks.score import Score


@dataclass(frozen=True)
class EvaluationData:
    """Loaders whose first mini-batches were read.

    Attributes:
        populations: By name.
        conditions: Validation data, and test data if there are any.
    """

    populations: Mapping[str, PeekedLoader]
    conditions: tuple[SplitLoaders[PeekedLoader], ...]

    @staticmethod
    def from_peeked_loaders(
        populations: Mapping[str, Loader], conditions: Sequence[SplitLoaders[Loader]], *, networks: int = 1
    ) -> EvaluationData:
        """Read the first mini-batch of each loader.

        Args:
            populations: Loaders by the name of the population.
            conditions: Loaders of each condition.
            networks: The number of networks, each of which reads every loader.

        Raises:
            DataError: A loader yields nothing, or is an iterator that would be read more than once.
        """
        named = [(population_argument_name(name, populations), loader) for name, loader in populations.items()]
        splits = [
            (name, loader) for condition in conditions for _, loader, name in condition.iter_splits_with_loaders()
        ]
        check_iterators_read_once([*named, *splits], networks=networks)
        return EvaluationData(
            {
                name: PeekedLoader(loader, population_argument_name(name, populations))
                for name, loader in populations.items()
            },
            tuple(condition.map_loaders(PeekedLoader) for condition in conditions),
        )

    @property
    def loaders_of_all_splits(self) -> list[PeekedLoader]:
        """The loaders of all conditions and splits."""
        return [loader for condition in self.conditions for _, loader, _ in condition.iter_splits_with_loaders()]

    def try_network_on_first_batches(
        self, adapter: BatchAdapter, score: Score, *, one_pass: bool, per_slot: bool
    ) -> None:
        """Try a network and the score with the first mini-batch of each loader.

        Raises:
            DataError: A mini-batch does not fit the network or the score.
            ModelError: The network returns something else than outputs of the examples.
        """
        for population in self.populations.values():
            adapter.check_form_of_first_population_batch(population, per_slot=per_slot)
        for split in self.loaders_of_all_splits:
            adapter.try_network_and_score_on_first_batch(split, score, one_pass=one_pass)
        for population in self.populations.values():
            adapter.try_network_on_first_population_batch(population)

    def check_splits_hold_largest_batch(self, adapter: BatchAdapter, batch_sizes: Sequence[int] | None) -> None:
        """Raise DataError if a split has fewer examples than the largest mini-batch size; the network is not called."""
        if batch_sizes is None:
            return
        largest = max(batch_sizes)
        for split in self.loaders_of_all_splits:
            examples = adapter.count_targets_until_enough(split, largest)
            if examples < largest:
                raise DataError(
                    f"batch_sizes has {largest}, which is larger than the data of {split.name}, {examples} examples: "
                    "lower it, or give more examples"
                )


def population_argument_name(name: str, loaders: Mapping[str, object]) -> str:
    """The argument of a population's loader, for messages."""
    return "train_loader" if len(loaders) == 1 else f"train_loader[{name!r}]"
