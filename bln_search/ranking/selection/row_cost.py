"""Which rows are preferred among rows of practically equal loss."""

from __future__ import annotations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import FEATURE_STATISTICS


def is_deterministic_configuration(configuration: InferenceConfiguration, *, per_slot: bool) -> bool:
    """Whether outputs depend neither on other examples nor on the position in the mini-batch."""
    reads_position = per_slot and any(
        configuration.source_of(statistic).reads_population for statistic in FEATURE_STATISTICS
    )
    return configuration.is_deterministic and not reads_position


def cost_of_row(configuration: InferenceConfiguration, *, per_slot: bool) -> tuple[bool, int]:
    """Sort key: rows that are independent of the mini-batch first, then those that compute the fewest statistics."""
    depends = not is_deterministic_configuration(configuration, per_slot=per_slot)
    return depends, configuration.num_statistics_from_mini_batch
