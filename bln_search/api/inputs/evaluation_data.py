"""The data of an evaluation: populations and conditions, of which mini-batches are checked before any pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.condition_loaders import SplitLoaders
from bln_search.api.inputs.loaders import check_split_holds_largest_batch
from bln_search.api.inputs.role_loader import Loader, RoleLoader, check_iterators_read_once
from bln_search.tasks.score import Score


@dataclass(frozen=True)
class EvaluationData:
    """Loaders in their roles.

    Attributes:
        populations: By name.
        conditions: Validation data, and test data if there are any.
        networks: The number of networks, each of which reads every loader.
    """

    populations: Mapping[str, RoleLoader]
    conditions: tuple[SplitLoaders[RoleLoader], ...]
    networks: int = 1

    @staticmethod
    def from_loaders(
        populations: Mapping[str, Loader], conditions: Sequence[SplitLoaders[Loader]], *, networks: int = 1
    ) -> EvaluationData:
        """The loaders with the names of their arguments; no iteration begins.

        Args:
            populations: Loaders by the name of the population.
            conditions: Loaders of each condition.
            networks: The number of networks, each of which reads every loader.

        Raises:
            DataError: A loader is no loader or an empty list, or an iterator that would be read more than once.
        """
        named = [(population_argument_name(name, populations), loader) for name, loader in populations.items()]
        splits = [
            (name, loader) for condition in conditions for _, loader, name in condition.iter_splits_with_loaders()
        ]
        readers = f"{networks} networks read it" if networks > 1 else None
        check_iterators_read_once([*named, *splits], readers=readers)
        data = EvaluationData(
            {
                name: RoleLoader(loader, population_argument_name(name, populations))
                for name, loader in populations.items()
            },
            tuple(condition.map_loaders(RoleLoader) for condition in conditions),
            networks,
        )
        for loader in [*data.populations.values(), *data.loaders_of_all_splits]:
            loader.compares_readings = networks > 1
        return data

    @property
    def loaders_of_all_splits(self) -> list[RoleLoader]:
        """The loaders of all conditions and splits."""
        return [loader for condition in self.conditions for _, loader, _ in condition.iter_splits_with_loaders()]

    def try_network_on_first_batches(
        self, adapter: BatchAdapter, score: Score, *, one_pass: bool, per_slot: bool
    ) -> None:
        """Try a network and the score with a mini-batch of each loader, if one can be read in advance.

        The first mini-batch of any other loader is tried when its reading begins.

        Raises:
            DataError: A mini-batch does not fit the network or the score.
            ModelError: The network returns something else than outputs of the examples.
        """
        adapter.needs_one_pass, adapter.needs_slots = one_pass, per_slot
        for split in self.loaders_of_all_splits:
            adapter.learn_form_of_split_sample(split)
        for population in self.populations.values():
            adapter.check_form_of_population_sample(population)
        for split in self.loaders_of_all_splits:
            adapter.try_network_and_score_on_sample(split, score)
        for population in self.populations.values():
            adapter.try_network_on_population_sample(population)

    def check_splits_hold_largest_batch(self, adapter: BatchAdapter, batch_sizes: Sequence[int] | None) -> None:
        """Raise DataError if a split is known to have fewer examples than the largest mini-batch size."""
        if batch_sizes is None:
            return
        for split in self.loaders_of_all_splits:
            examples = adapter.count_targets_of_list(split)
            if examples is not None:
                check_split_holds_largest_batch(examples, batch_sizes, split.name)


def population_argument_name(name: str, loaders: Mapping[str, object]) -> str:
    """The argument of a population's loader, for messages."""
    return "train_loader" if len(loaders) == 1 else f"train_loader[{name!r}]"
