"""One result from the ranked tables of each network under each condition, of an evaluation or of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from statistics import fmean

from bln_search.api.ranked.conditions import RankedConditions
from bln_search.api.ranked.file import read_ranked_tables
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.errors import DataError
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.ranking.leaderboard import LeaderboardRow, build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation

NetworkTables = Mapping[str | None, RankedConfigurations]
"""The tables of one network, by condition; a single condition may be without a name, None."""


def load_ranked(path: str | PathLike[str]) -> RankedConfigurations | RankedConditions:
    """Read ranked tables that `save` wrote. Nothing in the file is executed.

    Args:
        path: The file; the suffix `.safetensors` may be left out.

    Returns:
        What was saved: a `RankedConfigurations`, or a `RankedConditions`.

    Raises:
        DataError: The file cannot be read, is damaged, or is no file of ranked tables; or a later version wrote it.

    Example:
        ranked.save("ranked")
        ranked = bln_search.load_ranked("ranked")
    """
    networks, fingerprints = read_ranked_tables(path, RankedConfigurations)
    try:
        return combine_tables_over_networks(networks, fingerprints)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{path} is damaged: {error!r}") from None


def combine_tables_over_networks(
    networks: Sequence[NetworkTables], fingerprints: Sequence[str] = ()
) -> RankedConfigurations | RankedConditions:
    """The result of an evaluation: a table for one condition without a name, otherwise the tables of all conditions.

    `fingerprints` are those of several networks; empty for one network.
    """
    by_condition = {
        name: rank_means_over_networks([tables[name] for tables in networks], tuple(fingerprints))
        for name in networks[0]
    }
    if None in by_condition:
        return by_condition[None]
    return RankedConditions({name: table for name, table in by_condition.items() if name is not None})


def rank_means_over_networks(
    tables: Sequence[RankedConfigurations], fingerprints: tuple[str, ...] = ()
) -> RankedConfigurations:
    """The table of the means over networks; the table of a single network itself."""
    if len(tables) == 1:
        return tables[0]
    evaluations = (
        TrialEvaluation(arm=row.arm, seed=position, evaluation=evaluation)
        for position, table in enumerate(tables)
        for row in table.board.rows
        for evaluation in _evaluations_of_row(row, table)
    )
    deployed = {table.deployed for table in tables}
    return RankedConfigurations(
        board=build_leaderboard_from_evaluations(evaluations, tables[0].board.ranked_on, seeds=len(tables)),
        populations={},
        outcomes={},
        class_prior=tables[0].class_prior,
        per_slot=tables[0].per_slot,
        deployed=deployed.pop() if len(deployed) == 1 else None,
        has_accuracy=tables[0].has_accuracy,
        score=tables[0].score,
        metric_values={
            key: {name: fmean(table.metric_values[key][name] for table in tables) for name in values}
            for key, values in tables[0].metric_values.items()
            if all(key in table.metric_values for table in tables)
        },
        higher_is_better=tables[0].higher_is_better,
        networks=tuple(
            replace(table, fingerprints=fingerprints, network=position) for position, table in enumerate(tables)
        ),
        fingerprints=fingerprints,
        target_order=tables[0].target_order,
        examples_by_loader=tables[0].examples_by_loader,
        staged_reading=tables[0].staged_reading,
    )


def _evaluations_of_row(row: LeaderboardRow, table: RankedConfigurations) -> list[Evaluation]:
    """The evaluations of a row of one network; a row without a value has one on the split that ranks."""
    if not row.metrics:
        key = EvaluationKey(row.configuration, row.estimate, row.batch_size, table.board.ranked_on)
        return [Evaluation(key, row.state, n=0, reason=row.reason)]
    evaluations = []
    for split, metrics in row.metrics.items():
        key = EvaluationKey(row.configuration, row.estimate, row.batch_size, split)
        outcomes = table.outcomes.get(key)
        n = 0 if outcomes is None else len(outcomes.losses) - outcomes.left_out
        accuracy = None if metrics.accuracy is None else metrics.accuracy.mean
        evaluations.append(Evaluation(key, row.state, n, metrics.loss.mean, accuracy, row.reason, outcomes))
    return evaluations
