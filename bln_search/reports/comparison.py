"""A comparison of rows for a terminal, and in sentences."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedPair, ComparedRow, Comparison
from bln_search.ranking.leaderboard import RANKED_ON_TEST, Candidate
from bln_search.ranking.selection.selection_bias import Selection
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.ranking.study_effects import VarianceShares
from bln_search.specs.space import written_label


def groups_of(analysis: Analysis | None) -> dict[Candidate, ComparedRow]:
    """Rows that were compared, by their key."""
    return (
        {}
        if analysis is None or analysis.comparison is None
        else {row.candidate: row for row in analysis.comparison.rows}
    )


def comparison_table(comparison: Comparison, title: str = "") -> Table:
    """Every row with its group, the ranks it may have, and its difference to the best."""
    table = Table(title=Text(title) if title else None, title_justify="left", header_style="bold")
    arms = len({row.arm for row in comparison.rows}) > 1
    points = any(row.point for row in comparison.rows)
    sizes = len({row.batch_size for row in comparison.rows}) > 1
    named = [name for name, shown in (("arm", arms), ("parameters", points)) if shown]
    for column in ("place", "group", *named, "configuration", "population", *(["batch"] if sizes else [])):
        table.add_column(column, justify="right" if column in ("place", "batch") else "left")
    for column in (f"{comparison.split} loss", "less the best (95 %)", "p (Holm)", "accuracy %", "ranks", "first"):
        table.add_column(column, justify="right")
    for place, row in enumerate(comparison.rows):
        pair = comparison.pair(0, place)
        cells = [str(place + 1), row.group]
        cells += [row.arm] if arms else []
        cells += [written_label(row.point)] if points else []
        cells += [row.configuration, row.estimate or "–", *([str(row.batch_size)] if sizes else [])]
        cells += [f"{row.loss:.4f}", *difference_cells(pair), f"{row.accuracy:.2%}".rstrip("%")]
        cells += [f"{row.lowest_rank}–{row.highest_rank}", f"{row.first_share:.0%}"]
        table.add_row(*cells, style="bold" if row.shares_first else None)
    return table


def difference_cells(pair: ComparedPair | None) -> tuple[str, str]:
    """How much higher the second row's loss is than the first's, with its interval; and p. Dashes for no pair."""
    if pair is None:
        return "–", "–"
    found = pair.loss
    return f"{-found.mean:+.4f} [{-found.high:+.4f}, {-found.low:+.4f}]", f"{found.adjusted:.2g}"


def analysis_lines(analysis: Analysis, *, alone: bool = False) -> list[str]:
    """What an analysis says, a sentence or two a line.

    alone: no table stands beside it that says on which split rows are ranked.
    """
    lines = _first_lines(analysis)
    found = analysis.comparison
    if alone and found is not None and found.split is Split.TEST:
        lines.append(f"{RANKED_ON_TEST[0].upper()}{RANKED_ON_TEST[1:]}.")
    if found is None:
        return [*lines, f"Rows are not compared: {analysis.reason}."] if analysis.reason else lines
    lines.append(_told_apart(found))
    if found.friedman is not None:
        lines.append(
            f"Friedman over {found.seeds} seeds, for these {found.examples} examples only: "
            f"chi² = {found.friedman.statistic:.1f}, p = {found.friedman.p:.2g}; "
            f"mean ranks further apart than {found.friedman.critical_difference:.2f} differ (Nemenyi, 5 %)."
        )
    lines += [_shares_line(one) for one in analysis.shares if (one.split, one.metric) == (found.split, "loss")]
    if analysis.selection is not None:
        lines.append(selection_line(analysis.selection, found))
    return lines


def _first_lines(analysis: Analysis) -> list[str]:
    """Which row to use; before it, where no network has learned anything, that."""
    lines = [] if analysis.recommendation is None else [analysis.recommendation.words]
    if analysis.doubt is None:
        return lines
    return [analysis.doubt.words, *lines] if analysis.doubt.every else [*lines, analysis.doubt.words]


def _told_apart(found: Comparison) -> str:
    sharing = len(found.sharing_first)
    first = "One row is first" if sharing == 1 else f"{sharing} rows share the first place"
    about = "over examples of one network" if found.seeds == 1 else f"over {found.seeds} seeds and their examples"
    varied = f" ({found.too_varied} further down vary too much to be told from the best)" if found.too_varied else ""
    left = f"; {found.left_out} further rows were not compared" if found.left_out else ""
    told = (
        f"{first}{varied}: rows that share a letter are not told apart by their {found.split} loss {about} "
        f"({found.examples} examples, 5 %, Holm over {len(found.pairs)} pairs){left}."
    )
    if any(pair.loss.adjusted < ALPHA for pair in found.pairs):
        return told
    much = "One network tells" if found.seeds == 1 else f"{found.seeds} seeds tell"
    return f"{told} {much} too little to part any of them; that does not make them alike."


def _shares_line(one: VarianceShares) -> str:
    point = f" {written_label(one.point)}" if one.point else ""
    parts = ", ".join(f"{name} {share:.0%}" for name, share in one.shares if share >= 0.005)
    return f"Variance of the {one.split} loss of {one.arm}{point}: {parts}."


def selection_line(one: Selection, found: Comparison) -> str:
    """What choosing the row of lowest loss cost."""
    about = "at least" if found.left_out else "about"
    best = found.rows[0]
    bias = f", optimistic by {about} {found.optimism:.4f} (selection bias)," if found.optimism >= 0.00005 else ""
    name = " ".join(part for part in (best.arm, best.configuration, best.estimate) if part)
    return (
        f"The row of lowest {one.chosen_on} loss, {name}, has {one.loss:.4f} there{bias} and {one.loss_there:.4f} on "
        f"{one.reported_on}: place {one.place_there} of {one.of}, {one.regret:.4f} above the best."
    )
