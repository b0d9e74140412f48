"""Text of a per-layer search: significance, selection bias, extent of the search, excluded options."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from bln_search.core.enums import LayerScope, LayerSearchAlgorithm
from bln_search.ranking.per_layer import (
    HeldOutDifferenceToUniform,
    PerLayerResult,
    PerLayerRow,
    SelectedNetworkConfigurations,
)
from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval
from bln_search.reports.formatting import format_interval, format_signed, format_signed_interval
from bln_search.specs.sections.space import format_encoded_point

_SEARCH_NAMES = {
    LayerSearchAlgorithm.EXACT: "exact enumeration",
    LayerSearchAlgorithm.BEAM: "beam search",
    LayerSearchAlgorithm.COORDINATE: "coordinate search",
    LayerSearchAlgorithm.TPE: "TPE",
    LayerSearchAlgorithm.RACING: "racing",
    LayerSearchAlgorithm.RANDOM: "random search",
}
_MAX_WRITTEN_DIGITS = 15
"""Digits up to which a count is written in full."""

_MAX_NAMED_CHOICES = 3
"""Choices that a sentence names."""

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def arm_and_point_label(result: PerLayerResult) -> str:
    """Arm and point of the searched networks."""
    return f"{result.arm}, {format_encoded_point(result.point)}" if result.point else result.arm


def switch_effects_definition(result: PerLayerResult) -> str:
    """Definition of the effects of switches, with their unit."""
    scope = "averaged over all configurations" if result.marginal else "around the best configuration"
    subject = f"In {result.loss.unit}: loss" if result.loss.unit else "Loss"
    return f"{subject} under T minus loss under F, {scope}"


def per_layer_sentences(result: PerLayerResult) -> list[str]:
    """The result as text, its significance first; one topic per item."""
    unit = f" {result.loss.unit}" if result.loss.unit else ""
    sentences = [
        *_class_frequencies_sentences(result, unit),
        _per_layer_significance_sentence(result, unit),
        *_selection_bias_sentences(result.networks, unit),
        *_test_loss_sentences(result.networks, unit),
        _search_extent_text(result),
    ]
    if result.pending_seeds:
        seeds = ", ".join(map(str, result.pending_seeds))
        subject = f"Seed {seeds} is" if len(result.pending_seeds) == 1 else f"Seeds {seeds} are"
        sentences.append(f"{subject} not searched yet and not included.")
    return sentences


def excluded_option_sentences(result: PerLayerResult) -> list[str]:
    """Which options are excluded in which choices, and why; choices with the same exclusions are grouped."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for choice in result.choices:
        options_by_reason: dict[str, list[str]] = {}
        for option, reason in choice.excluded.items():
            options_by_reason.setdefault(reason, []).append(option)
        for reason, options in options_by_reason.items():
            groups.setdefault((reason, tuple(options)), []).append(choice.name)
    return [
        f"Excluded in {_format_choice_names(choices, len(result.choices))}: {', '.join(options)} ({reason})."
        for (reason, options), choices in groups.items()
    ]


def loss_interval_over_networks(row: PerLayerRow) -> ConfidenceInterval:
    """Mean loss over networks."""
    return ConfidenceInterval(row.loss, row.loss_half, row.networks)


def accuracy_interval_over_networks(row: PerLayerRow) -> ConfidenceInterval | None:
    """Mean accuracy over networks; None for a task without accuracy."""
    return None if row.accuracy is None else ConfidenceInterval(row.accuracy, row.accuracy_half, row.networks)


def format_count_from_digits(digits: str) -> str:
    """Format a count from its decimal digits; long counts in scientific notation."""
    if len(digits) <= _MAX_WRITTEN_DIGITS:
        return f"{int(digits):,}"
    return f"{digits[0]}.{digits[1]} × 10{str(len(digits) - 1).translate(_SUPERSCRIPT)}"


def _class_frequencies_sentences(result: PerLayerResult, unit: str) -> list[str]:
    """That no configuration is better than the class frequencies; empty where one is."""
    best, prior = result.best_row, result.class_prior
    if best is None or prior is None or best.loss < prior.loss:
        return []
    return [
        f"No configuration is better than the class-prior baseline: the lowest loss is {best.loss:.4f}, that of always "
        f"predicting the class frequencies {prior.loss:.4f}{unit}. The network may not have learned anything."
    ]


def _per_layer_significance_sentence(result: PerLayerResult, unit: str) -> str:
    difference = result.difference
    if not result.networks:
        return "No network is searched yet."
    if difference is None:
        reason = _missing_interval_reason(result, unit)
        return f"Significance of the difference between per-layer and uniform configurations is unknown: {reason}."
    if difference.is_significantly_better or difference.is_significantly_worse:
        text = _difference_text(difference, unit)
        return f"Per-layer configurations are significantly {text} (p = {difference.p:.2g})."
    return (
        "Per-layer and uniform configurations are not significantly different: the difference is "
        f"{format_signed(difference.mean)} [{format_signed(difference.low)}, {format_signed(difference.high)}]{unit} "
        f"{_difference_scope_text(difference)} "
        f"(p = {difference.p:.2g})."
    )


def _missing_interval_reason(result: PerLayerResult, unit: str) -> str:
    """Why no confidence interval is known."""
    differences = _finite_values(network.difference_to_uniform for network in result.networks)
    if len(differences) < len(result.networks):
        return f"{_count_without_finite_loss_text(len(result.networks) - len(differences))} on held-out folds"
    mean, networks = statistics.fmean(differences), _network_count_text(len(differences))
    return f"the difference on held-out folds is {format_signed(mean)}{unit} over {networks}, without an interval"


def _difference_text(difference: HeldOutDifferenceToUniform, unit: str) -> str:
    direction, mean, low, high = (
        ("better", -difference.mean, -difference.high, -difference.low)
        if difference.is_significantly_better
        else ("worse", difference.mean, difference.low, difference.high)
    )
    return f"{direction} by {mean:.4f} [{low:.4f}, {high:.4f}]{unit} {_difference_scope_text(difference)}"


def _difference_scope_text(difference: HeldOutDifferenceToUniform) -> str:
    return f"on held-out folds, over {_network_count_text(difference.networks)}"


def _network_count_text(count: int) -> str:
    return "one network" if count == 1 else f"{count} networks"


def _finite_values(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _count_without_finite_loss_text(count: int) -> str:
    return f"{_network_count_text(count)} {'has' if count == 1 else 'have'} no finite loss"


def _selection_bias_sentences(networks: Sequence[SelectedNetworkConfigurations], unit: str) -> list[str]:
    biases = _finite_values(network.selection_bias for network in networks)
    if not biases:
        return []
    bias = mean_with_t_interval(biases)
    subject = "The loss on the examples used for the selection"
    if bias.mean <= 0:
        return [f"{subject} is not optimistic ({format_signed_interval(bias)}{unit})."]
    if bias.half is not None and bias.half >= bias.mean:
        return [
            f"{subject} is not significantly optimistic: the selection bias is {format_signed_interval(bias)}{unit}."
        ]
    return [f"{subject} is optimistic by {format_interval(bias)}{unit} (selection bias)."]


def _test_loss_sentences(networks: Sequence[SelectedNetworkConfigurations], unit: str) -> list[str]:
    tested = [network for network in networks if network.is_tested]
    pairs = [
        (network.test_loss, network.test_uniform_loss)
        for network in tested
        if network.test_loss is not None and network.test_uniform_loss is not None
        if math.isfinite(network.test_loss) and math.isfinite(network.test_uniform_loss)
    ]
    omitted = len(tested) - len(pairs)
    if not pairs:
        return [f"On test {_count_without_finite_loss_text(omitted)}."] if omitted else []
    note = f"; {_count_without_finite_loss_text(omitted)} there" if omitted else ""
    per_layer, uniform = (statistics.fmean(losses) for losses in zip(*pairs, strict=True))
    difference = mean_with_t_interval([first - second for first, second in pairs])
    return [
        f"On test, which was not used for any selection, the selected per-layer configurations have {per_layer:.4f}, "
        f"the best uniform ones {uniform:.4f}: {format_signed_interval(difference)}{unit} over "
        f"{_network_count_text(len(pairs))}{note}."
    ]


def _search_extent_text(result: PerLayerResult) -> str:
    """Size of the space, number of evaluated configurations, and data."""
    return (
        f"{_choices_scope_text(result)}: {format_count_from_digits(result.size)} "
        f"configurations{_evaluated_count_text(result)}. "
        f"{result.examples:,} validation examples{_uncounted_text(result.uncounted)} in mini-batches of "
        f"{result.batch_size}, population "
        f"{result.estimate or 'not read'}; {result.folds}-fold cross-validation."
    )


def _uncounted_text(uncounted: int) -> str:
    return f" (and {uncounted:,} without a counted target)" if uncounted else ""


def _choices_scope_text(result: PerLayerResult) -> str:
    layers = "one normalization layer" if len(result.layers) == 1 else f"{len(result.layers)} normalization layers"
    if result.scope is LayerScope.GLOBAL:
        return f"One configuration for all of {layers}"
    if result.scope is LayerScope.GROUPS:
        choices = "One choice" if len(result.choices) == 1 else f"{len(result.choices)} choices"
        searched, total = len(result.searched_layers), len(result.layers)
        if searched < total:
            return f"{choices} for {searched} of {layers}, one per group; the others keep their configurations"
        return f"{choices} for {layers}, one per group"
    return f"One configuration for each of {layers}"


def _evaluated_count_text(result: PerLayerResult) -> str:
    if not result.networks:
        return ""
    counts = [network.evaluations for network in result.networks]
    without_loss = _count_without_loss_text([network.not_finite for network in result.networks])
    if len(result.size) <= _MAX_WRITTEN_DIGITS and min(counts) >= int(result.size):
        return f", all of them evaluated on each network{without_loss}"
    searched = f"{statistics.fmean(counts):,.0f} of them evaluated on each network"
    return f", {searched} ({_SEARCH_NAMES[result.search]}){without_loss}"


def _count_without_loss_text(counts: Sequence[int]) -> str:
    """How many of the evaluated configurations are in no table; empty for none."""
    least, most = min(counts), max(counts)
    if most == 0:
        return ""
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return f"; {number} of these {'has' if most == 1 else 'have'} no finite loss and no row"


def _format_choice_names(choices: Sequence[str], total: int) -> str:
    if len(choices) == total > 1:
        return f"all {total} choices"
    more = len(choices) - _MAX_NAMED_CHOICES
    return ", ".join(choices[:_MAX_NAMED_CHOICES]) + (f" and {more} more" if more > 0 else "")
