"""The verbs that write a whole study down: manifest."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from bln_search.cli.output import ToOption, check_target, give
from bln_search.cli.sources import DatabaseOption, ServerOption, StudyArgument, TokenOption, open_source
from bln_search.reports.machine import this_machine
from bln_search.reports.manifest import manifest, manifest_json


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("manifest")(write_manifest)


def write_manifest(
    study: StudyArgument,
    database: DatabaseOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    to: ToOption = None,
) -> None:
    """Write down what a study's results rest on: seeds, versions, hardware, hashes of data and checkpoints."""
    if to is not None:
        check_target(to)
    with open_source(database, server, token) as source:
        found = source.find(study)
        content = manifest(
            found, source.trials(found.id), machine=this_machine(), schema=source.schema(), now=datetime.now(UTC)
        )
    give(manifest_json(content).encode(), to)
