"""Columns that the tables of rows share: configuration, verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import StatisticSource
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import RowVerdict
from bln_search.reports.terminal.columns import CellKind, Column
from bln_search.specs.sections.point_labels import make_label_by_distinct_point

_STYLES = {
    StatisticSource.POPULATION: "bold green",
    StatisticSource.MEMORY: "bold cyan",
    StatisticSource.LAST_STEP: "bold blue",
    StatisticSource.WITH_MINI_BATCH: "cyan",
    StatisticSource.ANALYTIC: "bold blue",
    StatisticSource.MINI_BATCH: "yellow",
    StatisticSource.BLEND: "magenta",
    StatisticSource.ABSENT: "dim",
}
_MEANINGS = {
    StatisticSource.POPULATION: "T population",
    StatisticSource.MINI_BATCH: "F mini-batch",
    StatisticSource.MEMORY: "M memory",
    StatisticSource.LAST_STEP: "L last training step",
    StatisticSource.WITH_MINI_BATCH: "C memory and mini-batch",
    StatisticSource.ANALYTIC: "A weights",
    StatisticSource.BLEND: "B blend",
    StatisticSource.ABSENT: "- absent",
}


def row_identity_columns(keys: Sequence[RowKey], drop_population: int) -> list[Column]:
    """Columns that tell rows apart: arm, parameters and batch size where they differ, configuration, population.

    Args:
        keys: Identity of each row.
        drop_population: Order in which the population is dropped; it is kept where rows have several estimates.
    """
    columns = []
    if len({key.arm for key in keys}) > 1:
        columns.append(Column("arm", [key.arm for key in keys], is_key=True))
    if any(key.point for key in keys):
        labels = make_label_by_distinct_point(key.point for key in keys)
        columns.append(Column("parameters", [labels[key.point] for key in keys], is_key=True))
    columns.append(_configuration_column([key.configuration for key in keys]))
    has_estimates = len({key.estimate for key in keys} - {None}) > 1
    columns.append(
        Column(
            "population",
            [key.estimate or "–" for key in keys],
            CellKind.CODE,
            is_key=has_estimates,
            drop_order=None if has_estimates else drop_population,
        )
    )
    if len({key.batch_size for key in keys}) > 1:
        columns.append(Column("batch", [str(key.batch_size) for key in keys], CellKind.NUMBER, is_key=True))
    return columns


def _configuration_column(configurations: Sequence[InferenceConfiguration]) -> Column:
    """The four letters of each row; the legend explains those that occur."""
    sources = {source for configuration in configurations for source in configuration.source_by_statistic.values()}
    meanings = ", ".join(meaning for source, meaning in _MEANINGS.items() if source in sources)
    return Column(
        "configuration",
        [_coloured_configuration_text(configuration) for configuration in configurations],
        CellKind.CODE,
        legend=f"configuration: sources of E_B, Std_B, E_F, Std_F ({meanings})",
        is_key=True,
    )


def recommended_mark_column(is_recommended: Sequence[bool]) -> Column:
    """A mark at the recommended row."""
    cells = ["*" if recommended else "" for recommended in is_recommended]
    return Column("recommended", cells, CellKind.CODE, heading="", legend="* recommended")


def verdict_column(verdicts: Sequence[RowVerdict | None], drop_order: int, of: str = "the best row") -> Column | None:
    """What is known about each row beside the best one; None where no row was compared.

    Args:
        verdicts: Verdict of each row; None for a row that was not compared.
        drop_order: Order in which the column is dropped.
        of: What the rows are compared with.
    """
    if not any(verdicts):
        return None
    return Column(
        "verdict",
        [verdict or "" for verdict in verdicts],
        CellKind.CODE,
        legend=f"verdict: each row beside {of} (95 %, corrected for all rows)",
        drop_order=drop_order,
    )


def _coloured_configuration_text(configuration: InferenceConfiguration) -> Text:
    return Text.assemble(*((source.value, _STYLES[source]) for source in configuration.source_by_statistic.values()))
