"""Command `submit-results`: submit results of networks that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.options import FormatOption, QuietOption, ServiceOption, TokenOption
from bln_search.cli.output import RecordsFormat, make_progress_line_printer, results
from bln_search.cli.records import print_record
from bln_search.cli.sources.opening import open_service_client
from bln_search.cli.studies.wording import format_study_label
from bln_search.core.errors import ModelError
from bln_search.settings import load_settings

_SUBMITTED_FIELDS = ("id", "name", "owner", "state", "new")


def submit_results(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `ranked.save` wrote.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the study.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title for display.")] = "",
    condition: Annotated[
        str | None,
        typer.Option("--condition", metavar="NAME", help="Submit this condition alone, of a table with several."),
    ] = None,
    ranked_under: Annotated[
        str | None,
        typer.Option(
            "--ranked-under",
            metavar="NAME",
            help="Condition whose loss ranks the rows, of a table with several; by default `clean`, or the first one.",
        ),
    ] = None,
    server: ServiceOption = None,
    token: TokenOption = None,
    output_format: FormatOption = RecordsFormat.TABLE,
    quiet: QuietOption = False,
) -> None:
    """Submit a saved ranked table of your own networks to a service, as a complete study.

    Colleagues then see its leaderboard. Results that the service has already are not stored again.
    """
    from bln_search.api import load_ranked
    from bln_search.api.ranked.conditions import RankedConditions

    ranked = load_ranked(file)
    if not isinstance(ranked, RankedConditions):
        if condition is not None or ranked_under is not None:
            raise ModelError(f"{file} has no conditions: leave --condition and --ranked-under out")
        external = ranked.to_external_results(name, title=title)
    else:
        for selected in (condition, ranked_under):
            if selected is not None and selected not in ranked.conditions:
                raise ModelError(f"{file} has no condition {selected}: choose one of {', '.join(ranked.conditions)}")
        external = (
            ranked.to_external_results(name, title=title, ranked_under=ranked_under)
            if condition is None
            else ranked[condition].to_external_results(name, title=title)
        )
    with open_service_client(server, token, load_settings()) as client:
        accepted = client.submit_results(external)
    status = "submitted" if accepted["new"] else "already submitted"
    make_progress_line_printer(quiet=quiet)(
        f"{format_study_label(accepted['id'], accepted['name'], accepted['owner'])}: {status}"
    )
    record = {field: accepted[field] for field in _SUBMITTED_FIELDS}
    print_record(record, output_format, lambda: results.print(str(accepted["id"]), highlight=False))
