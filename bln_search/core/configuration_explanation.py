"""What a layer does under a configuration, in a sentence for readers who do not know the letters of its code."""

from __future__ import annotations

from bln_search.core.blend import parse_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, StatisticSource


def explain_configuration(configuration: InferenceConfiguration, estimate: str | None = None) -> str:
    """Whose statistics the mean and the deviation are.

    `TF--`: `Use the statistics of the training data for the mean, of the mini-batch for the deviation.`

    Args:
        configuration: The configuration.
        estimate: Label of the population estimate of its row; None where it reads no population value, or any.
    """
    over_batch, over_features = (
        _explain_pair(*(_explain_source(configuration.source_of(statistic), data, estimate) for statistic in pair))
        for pair, data in ((BATCH_STATISTICS, "the mini-batch"), (FEATURE_STATISTICS, "each example"))
    )
    if not over_batch and not over_features:
        return "Use the network as it is: it has no normalization."
    if not over_batch or not over_features:
        return f"Use the statistics {over_batch or over_features}."
    if over_batch == over_features:
        return f"Use the statistics {over_batch}, over the mini-batch and over the features."
    return (
        f"To normalize over the mini-batch, use the statistics {over_batch}; over the features, those {over_features}."
    )


def _explain_pair(mean: str, deviation: str) -> str:
    """The sources of a mean and a deviation; empty for a pair that the method does not have."""
    if mean == deviation:
        return f"{mean} for the mean and the deviation" if mean else ""
    return f"{mean} for the mean, {deviation} for the deviation"


def _explain_source(source: StatisticSource, data: str, estimate: str | None) -> str:
    name, blend = (PopulationEstimate.FROZEN, None) if estimate is None else parse_estimate_label(estimate)
    population = "the training data" if name in list(PopulationEstimate) else f"the population {name}"
    if source.description.has_row_weight and blend is not None:
        population += f" (as {blend.value:g} examples)" if blend.is_prior else f" (weight {blend})"
    return source.description.words.format(population=population, data=data)
