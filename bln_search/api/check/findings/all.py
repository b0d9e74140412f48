"""All causes, from the most specific one to the most general one."""

from __future__ import annotations

import math

from bln_search.api.check.findings import data, modes, stored_statistics
from bln_search.api.check.observations import Observations
from bln_search.ranking.network_check import Cause, Finding

_FINDERS = (
    data.find_chance,
    stored_statistics.find_not_finite,
    modes.find_layers_in_training_mode,
    modes.find_randomness,
    modes.find_differing_copies,
    stored_statistics.find_exchanged,
    stored_statistics.find_changed_epsilon,
    data.find_other_preprocessing,
    data.find_other_domain,
    stored_statistics.find_momentum_zero,
    stored_statistics.find_momentum_one,
    stored_statistics.find_few_updates,
    stored_statistics.find_stale,
    stored_statistics.find_small_training_batches,
    stored_statistics.find_better_mini_batch,
    modes.find_batch_dependence,
    modes.find_state,
    stored_statistics.find_constant_channels,
    stored_statistics.find_unused,
)
_GENERAL = frozenset({Cause.STALE_STATISTICS, Cause.MINI_BATCH_IS_BETTER})
"""Causes that are named only where no more specific one has an effect."""

_MAIN_SHARE = 0.5
"""Part of the largest gain from which a cause explains most of the loss."""


def find_causes(seen: Observations) -> tuple[Finding, ...]:
    """The findings: those that explain most of the loss first, each part from the most specific to the most general."""
    findings = [finding for find in _FINDERS if (finding := find(seen)) is not None]
    effective = [finding for finding in findings if finding.has_effect]
    largest = max((_gain(finding) for finding in effective), default=0.0)
    main = [finding for finding in effective if _gain(finding) >= _MAIN_SHARE * largest]
    specific = [finding for finding in main if finding.cause not in _GENERAL]
    chosen = specific or main[:1]
    others = [finding for finding in effective if finding not in main and finding.cause not in _GENERAL]
    return (*chosen, *others, *(finding for finding in findings if not finding.has_effect))


def _gain(finding: Finding) -> float:
    """What the remedy recovers; of a remedy that no difference measures, as of a loss that is not finite, the most."""
    return math.inf if finding.recovered is None else finding.recovered.mean
