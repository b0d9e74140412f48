"""Command `submit-results`: submit results of networks that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.options import FormatOption, QuietOption, ServiceOption, TokenOption
from bln_search.cli.output import Format, results
from bln_search.cli.progress_lines import line_printer
from bln_search.cli.records import print_record
from bln_search.cli.sources import open_client
from bln_search.cli.studies.wording import study_label
from bln_search.core.errors import ModelError
from bln_search.settings import load_settings

_SUBMITTED_FIELDS = ("id", "name", "owner", "state", "new")


def submit_results(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `ranked.save` wrote.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the study.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title for display.")] = "",
    condition: Annotated[
        str | None,
        typer.Option("--condition", metavar="NAME", help="Condition to submit, of a table with several."),
    ] = None,
    server: ServiceOption = None,
    token: TokenOption = None,
    output_format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Submit a saved ranked table of your own networks to a service, as a complete study.

    Colleagues then see its leaderboard. Results that the service has already are not stored again.
    """
    from bln_search.api import load_ranked
    from bln_search.api.conditions.tables import RankedConditions

    ranked = load_ranked(file)
    if isinstance(ranked, RankedConditions):
        if condition is None or condition not in ranked.conditions:
            listed = ", ".join(ranked.conditions)
            raise ModelError(f"{file} has several conditions, a study has one: give --condition, one of {listed}")
        ranked = ranked[condition]
    elif condition is not None:
        raise ModelError(f"{file} has no conditions: leave --condition out")
    external = ranked.external_results(name, title=title)
    with open_client(server, token, load_settings()) as client:
        accepted = client.submit_results(external)
    status = "submitted" if accepted["new"] else "already submitted"
    line_printer(quiet=quiet)(f"{study_label(accepted['id'], accepted['name'], accepted['owner'])}: {status}")
    record = {field: accepted[field] for field in _SUBMITTED_FIELDS}
    print_record(record, output_format, lambda: results.print(str(accepted["id"]), highlight=False))
