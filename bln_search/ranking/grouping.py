"""Group evaluations by row and by evaluation setting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.row_results import RowResults, TrialEvaluation, group_evaluations_by_row

LossBySeed = dict[int, float]
"""Mean loss (nats) by seed."""


@dataclass(frozen=True, order=True)
class RowKeyWithoutConfiguration:
    """What all configurations of a network share in an evaluation.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        estimate: Population estimate of the configurations that read a population value; None where none does.
        batch_size: Inference mini-batch size.
    """

    arm: str
    point: str
    estimate: str | None
    batch_size: int


def group_losses_by_row(evaluations: Iterable[TrialEvaluation], split: Split) -> dict[RowKey, LossBySeed]:
    """Losses of every row on `split`; evaluations under a condition or without a loss are omitted."""
    return extract_losses_from_results_by_row(group_evaluations_by_row(evaluations), split)


def extract_losses_from_results_by_row(results: RowResults, split: Split) -> dict[RowKey, LossBySeed]:
    """`group_losses_by_row` of results that are grouped by row."""
    losses = {
        key: {
            result.seed: result.loss
            for result in of_row
            if result.split is split and not result.condition and result.loss is not None
        }
        for key, of_row in results.items()
    }
    return {key: by_seed for key, by_seed in losses.items() if by_seed}


def group_losses_by_setting_and_configuration(
    losses: dict[RowKey, LossBySeed],
) -> dict[RowKeyWithoutConfiguration, dict[InferenceConfiguration, LossBySeed]]:
    """Losses of every configuration under each evaluation setting.

    A configuration that reads no population value is evaluated once and listed under every estimate. A configuration
    that lacks seeds which others have under the setting is omitted: its mean would be over other networks.
    """
    settings: dict[RowKeyWithoutConfiguration, dict[InferenceConfiguration, LossBySeed]] = {}
    without_population: dict[tuple[str, str, int], dict[InferenceConfiguration, LossBySeed]] = {}
    for key, by_seed in losses.items():
        if key.estimate is None:
            network_losses = without_population.setdefault((key.arm, key.point, key.batch_size), {})
            network_losses[key.configuration] = by_seed
        else:
            setting = RowKeyWithoutConfiguration(key.arm, key.point, key.estimate, key.batch_size)
            settings.setdefault(setting, {})[key.configuration] = by_seed
    for setting, by_configuration in settings.items():
        by_configuration.update(without_population.get((setting.arm, setting.point, setting.batch_size), {}))
    with_estimate = {(setting.arm, setting.point, setting.batch_size) for setting in settings}
    for (arm, point, batch_size), by_configuration in without_population.items():
        if (arm, point, batch_size) not in with_estimate:
            settings[RowKeyWithoutConfiguration(arm, point, None, batch_size)] = by_configuration
    return {
        setting: _keep_configurations_with_every_seed(settings[setting])
        for setting in sorted(settings, key=_setting_sort_key)
    }


def _keep_configurations_with_every_seed(
    losses: dict[InferenceConfiguration, LossBySeed],
) -> dict[InferenceConfiguration, LossBySeed]:
    seeds = set().union(*losses.values())
    return {configuration: by_seed for configuration, by_seed in losses.items() if by_seed.keys() == seeds}


def _setting_sort_key(setting: RowKeyWithoutConfiguration) -> tuple[str, str, str, int]:
    return setting.arm, setting.point, setting.estimate or "", setting.batch_size
