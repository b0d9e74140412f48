"""The result of a study for a terminal: the recommended row in one line, facts below it, statistics on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from bln_search.core.enums import Split
from bln_search.core.method import Statistic
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.effect_records import SwitchEffectsOfSetting
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import format_signed_interval
from bln_search.reports.sentences.analysis import summarize_analysis
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.reports.tables.line_wrapping import wrap_line
from bln_search.specs.sections.point_labels import make_label_by_distinct_point

_BULLET = "• "


@dataclass(frozen=True)
class RenderableResultSummary:
    """The summary of an analysis as lines; with details also its statistics.

    Attributes:
        analysis: The analysis.
        details: Print the statistics behind the facts.
        standalone: No table next to the lines says on which split rows are ranked.
    """

    analysis: Analysis
    details: bool = False
    standalone: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield warnings, recommendation, facts and details."""
        summary = summarize_analysis(self.analysis, standalone=self.standalone)
        if not summary.summary_lines:
            return
        yield ""
        for warning in summary.warnings:
            yield Text(wrap_line(f"Warning: {warning}", options.max_width), style="bold yellow")
        if summary.headline is not None:
            yield Text.assemble((summary.headline, "bold green"), (f" – {summary.figures}", "bold"))
        for text in (*summary.facts, *(summary.details if self.details else ())):
            yield _bullet_line(text, options.max_width)
        if self.details:
            yield from _iter_effects_table(self.analysis)


def _bullet_line(text: str, width: int) -> Text:
    """A line with a hanging indent."""
    lines = wrap_line(text, width - len(_BULLET))
    return Text(f"{_BULLET}{indent(lines, ' ' * len(_BULLET)).lstrip()}")


def _iter_effects_table(analysis: Analysis) -> Iterator[RenderableType]:
    """A table of the main effects of the switches on the compared loss; nothing without effects."""
    comparison = analysis.comparison
    effects = [
        setting
        for setting in analysis.effects
        if comparison is not None and (setting.split, setting.metric) == (comparison.split, "loss")
    ]
    if comparison is not None and effects:
        yield ""
        yield switch_main_effects_table(effects, comparison.split)


def switch_main_effects_table(effects: Sequence[SwitchEffectsOfSetting], split: Split) -> FittedTable:
    """Main effect of each switch under each evaluation setting, with its 95 % confidence interval over seeds."""
    point_labels = make_label_by_distinct_point(setting.point for setting in effects)
    identity = {
        "arm": [setting.arm for setting in effects],
        "parameters": [point_labels[setting.point] for setting in effects],
        "population": [setting.estimate or "–" for setting in effects],
        "batch": [str(setting.batch_size) for setting in effects],
    }
    keys = [Column(name, cells, is_key=True) for name, cells in identity.items() if len(set(cells)) > 1]
    switches = [
        Column(statistic, [_effect_cell(setting, statistic) for setting in effects], CellKind.NUMBER)
        for statistic in Statistic
    ]
    note = (
        f"Effect of a switch: mean {split} loss at T minus that at F, ± half the 95 % confidence interval over seeds."
    )
    return FittedTable([*keys, *switches], "Effects of the switches", [note], all_columns=True)


def _effect_cell(setting: SwitchEffectsOfSetting, statistic: Statistic) -> str:
    """Effect of one switch; a dash for a statistic that the method does not have."""
    effect = next((effect for effect in setting.effects if effect.switches == statistic), None)
    if effect is None:
        return "–"
    half = None if effect.high is None else effect.high - effect.mean
    return format_signed_interval(ConfidenceInterval(effect.mean, half, 0))
