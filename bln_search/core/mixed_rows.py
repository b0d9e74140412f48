"""The further rows of a configuration that reads the population: blended (source B) and moving statistics (E)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.blend import PopulationWeight, blended_estimate_label
from bln_search.core.configuration import InferenceConfiguration


@dataclass(frozen=True)
class MixtureWeights:
    """Weights of the stored value in further rows, one row for each.

    Attributes:
        blends: Of rows with blended statistics (source B).
        moving: Of rows with moving statistics (source E).
    """

    blends: Sequence[PopulationWeight] = ()
    moving: Sequence[PopulationWeight] = ()

    def list_rows(
        self, configuration: InferenceConfiguration, population: str
    ) -> list[tuple[InferenceConfiguration, str]]:
        """Return the configurations and labels of estimates of the further rows.

        Args:
            configuration: A configuration that reads the population.
            population: The name of the population.
        """
        return [
            (mixed, blended_estimate_label(population, weight))
            for mixed, weights in (
                (configuration.with_blend_for_population, self.blends),
                (configuration.with_moving_for_population, self.moving),
            )
            for weight in weights
        ]
