"""A table whose columns sort its rows by a click, with style rules alone.

Notebooks strip scripts of others, and marimo moves outputs with scripts into frames without its theme. So a hidden
radio button stands for each order, a heading is the label of the next one, and `:has(:checked)` selects the `order` of
the rows. Screen readers read the headings with `aria-sort`, of which one per column is shown. Without style rules the
table is a plain one: what needs them is hidden by its own `style`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from uuid import uuid4

from bln_search.reports.notebook.row_order import rank_rows
from bln_search.reports.page.blocks import MAX_TABLE_ROWS, Table
from bln_search.reports.tables.columns import Cell, Column
from bln_search.reports.tables.fitted_table import FittedTable

ROOT = "bln-search"
"""Class of the output, to which all style rules apply."""

_DIRECTIONS = {"a": "ascending", "d": "descending"}
_ROW_CLASSES = {"bold": "first", "dim": "unranked"}
_HIDDEN = 'style="display:none"'


def render_table(table: Table) -> str:
    """Return a table; rows without a value stay last in both directions."""
    content = table.content
    columns = content.columns_with_values
    rows = min(MAX_TABLE_ROWS, len(content.rows))
    named = [(index, column) for index, column in enumerate(columns) if column.full_heading.strip()]
    ranks = {index: places for index, column in named if (places := rank_rows(column, rows)) is not None}
    name = f"{ROOT}-{uuid4().hex[:12]}"
    headings = "".join(_render_heading(column, index, name, index in ranks) for index, column in enumerate(columns))
    body = "".join(_iter_rows(content, columns, ranks, rows))
    caption = f"<caption>{escape(content.title)}</caption>" if content.title else ""
    note = f'<p class="quiet">{escape(table.truncation_note)}</p>' if table.truncation_note else ""
    orders = _render_orders(columns, ranks, name)
    return (
        f'<div class="sortable"><style>{"".join(_iter_rules(ranks, rows))}</style>{orders}'
        f'<div class="scroll" role="region" aria-label="{escape(content.title or "Table")}" tabindex="0">'
        f'<table style="--columns:{len(columns)}">{caption}<thead><tr>{headings}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></div>{note}"
    )


def _render_orders(columns: Sequence[Column], ranks: dict[int, list[int | None]], name: str) -> str:
    """A radio button for each order of the rows."""
    buttons = [f'<input type="radio" name="{name}" id="{name}-n" aria-label="as printed" checked/>']
    buttons += [
        f'<input type="radio" name="{name}" id="{name}-{letter}{index}" class="{letter}{index}" '
        f'aria-label="{escape(columns[index].full_heading)}, {direction}"/>'
        for index in ranks
        for letter, direction in _DIRECTIONS.items()
    ]
    return f"<fieldset {_HIDDEN}><legend>Order of the rows</legend>{''.join(buttons)}</fieldset>" if ranks else ""


def _iter_rules(ranks: dict[int, list[int | None]], rows: int) -> Iterator[str]:
    """Style rules: the order of the rows, and which heading is shown."""
    for index in ranks:
        asc, desc = (f".{ROOT} .sortable:has(>fieldset>.{letter}{index}:checked)" for letter in _DIRECTIONS)
        yield f"{asc} tbody tr{{order:var(--o{index})}}"
        yield f"{desc} tbody tr{{order:max({rows} - var(--o{index}),var(--o{index}) - {rows})}}"
        yield f"{asc} thead .a{index},{desc} thead .d{index}{{display:inline!important}}"
        yield f"{asc} thead .n{index},{desc} thead .n{index}{{display:none!important}}"
        focused = f".{ROOT} .sortable:has(>fieldset>:is(.a{index},.d{index}):focus-visible)"
        yield f"{focused} th:has(.n{index}){{outline:2px solid;outline-offset:-2px}}"


def _render_heading(column: Column, index: int, name: str, has_order: bool) -> str:  # noqa: FBT001
    kind, heading = column.kind.value, escape(column.full_heading)
    if not heading.strip():
        return f'<td class="{kind}"></td>'
    if not has_order:
        return f'<th scope="col" class="{kind}">{heading}</th>'
    states = (
        ("n", "none", f"{name}-a{index}"),
        ("a", "ascending", f"{name}-d{index}"),
        ("d", "descending", f"{name}-n"),
    )
    headers = "".join(
        f'<span role="columnheader" aria-label="{heading}" aria-sort="{direction}" class="{letter}{index} {direction}" '
        f'{_HIDDEN}><label for="{next_order}"></label></span>'
        for letter, direction, next_order in states
    )
    return f'<th scope="col" role="none" class="{kind}"><span aria-hidden="true">{heading}</span>{headers}</th>'


def _iter_rows(
    table: FittedTable, columns: Sequence[Column], ranks: dict[int, list[int | None]], rows: int
) -> Iterator[str]:
    key = next((index for index, column in enumerate(columns) if column.is_key), None)
    for row in range(rows):
        places = {index: of_column[row] for index, of_column in ranks.items()}
        order = ";".join(f"--o{index}:{3 * rows if place is None else place}" for index, place in places.items())
        style = _ROW_CLASSES.get((table.row_styles[row] if table.row_styles else None) or "")
        cells = "".join(
            _render_cell(column.cells[row], column.kind.value, is_header=index == key)
            for index, column in enumerate(columns)
        )
        attributes = (f' class="{style}"' if style else "") + (f' style="{order}"' if order else "")
        yield f"<tr{attributes}>{cells}</tr>"


def _render_cell(cell: Cell, kind: str, *, is_header: bool) -> str:
    text = escape(str(cell)).replace("\n", "<br/>")
    return f'<th scope="row" class="{kind}">{text}</th>' if is_header else f'<td class="{kind}">{text}</td>'
