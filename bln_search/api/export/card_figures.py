"""What a model card says of the exported row of a user's ranked table."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.api.apply import Choice
from bln_search.api.export.card_metadata import OwnCardContent, interval_ends
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.ranking.statistics.intervals import mean_with_t_interval, wilson_interval
from bln_search.reports.card_front_matter import CardMetric
from bln_search.reports.card_ranking import render_card_ranking


def make_own_card_content(
    configuration: Choice | None, ranked: RankedConfigurations | None, metadata: Mapping[str, object] | None
) -> OwnCardContent:
    """The content of the card for arguments of `export`.

    Raises:
        ValueError: `ranked` is no table of one condition, `configuration` is a row of another table, or `metadata` has
            a value that YAML does not have.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ValueError(f"metadata is a mapping, as in {{'license': 'mit'}}, not {metadata!r}")
    if ranked is not None and not isinstance(ranked, RankedConfigurations):
        raise ValueError(
            f"ranked is a {type(ranked).__name__}: give the table of evaluate_configurations, and of several "
            'conditions that of one, as in ranked=ranked["clean"]'
        )
    if ranked is None:
        return OwnCardContent(metadata or {})
    row = configuration if isinstance(configuration, RankedConfiguration) else None
    metrics = [] if row is None else _measure_row(row, ranked)
    key = None if row is None else row.row.key
    ranking = render_card_ranking(ranked.distinct_board, ranked.analysis, key, ranked.batch_sizes_by_row)
    return OwnCardContent(metadata or {}, metrics, ranking)


def _measure_row(row: RankedConfiguration, ranked: RankedConfigurations) -> list[CardMetric]:
    """Loss and accuracy of a row of one network, with intervals over examples; none for several networks."""
    if all(other.key != row.row.key for other in ranked.board.rows):
        raise ValueError(f"{row} is not a row of ranked: give the table that it was taken from")
    outcomes = ranked.find_outcome_table_of_rows([row.row.key])
    values = row.row.metrics.get(ranked.board.ranked_on)
    if outcomes is None or values is None or len(outcomes.losses) > 1:
        return []
    losses = outcomes.losses[0, 0]
    over = f"{len(losses)} examples"
    metrics = []
    if values.accuracy is not None:
        ends = wilson_interval(values.accuracy.mean, len(losses))
        metrics.append(CardMetric("accuracy", values.accuracy.mean, "accuracy", ends, over))
    interval = interval_ends(mean_with_t_interval(losses.tolist()))
    return [*metrics, CardMetric("loss", values.loss.mean, ranked.score.text, interval, over)]
