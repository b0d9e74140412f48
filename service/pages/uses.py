"""How a row of a leaderboard is used from Python, from the command line and over REST."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from bln_search.core.blend import parse_estimate_label
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.specs.study import StudySpec
from service.pages.rendering.templates import url_with_query


@dataclass(frozen=True)
class CodeExample:
    """A block of code.

    Attributes:
        id: Id of the element on the page.
        title: What it does.
        code: The code.
    """

    id: str
    title: str
    code: str


def list_code_examples(server: str, study_id: int, study: StudySpec, row: LeaderboardRow) -> list[CodeExample]:
    """Code for the row.

    Args:
        server: Address of the service.
        study_id: The study.
        study: Its specification. The networks of external results are not stored, so they cannot be exported.
        row: The row.
    """
    export = CodeExample(
        "use-export", "Export the trained network by command", _export_command(server, study_id, study.name, row)
    )
    return [
        CodeExample("use-network", "Your own network in Python", _own_network_code(row)),
        *([export] if study.external is None else []),
        CodeExample("use-client", "Its figures in Python", _client_code(server, study_id, row)),
        CodeExample("use-rest", "Its figures over REST", _rest_command(server, study_id, row)),
    ]


def _own_network_code(row: LeaderboardRow) -> str:
    weight = _find_weight_literal(row.estimate)
    name = "moving" if row.configuration.is_moving else "blends"
    weights = "" if weight is None else f", {name}=[{weight}]"
    return (
        "import bln_search\n\n"
        f"ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader{weights})\n"
        f'bln_search.apply_configuration(model, ranked["{row.configuration}"])'
    )


def _find_weight_literal(estimate: str | None) -> str | None:
    """Return the weight of a blended or moving row as Python code: `0.1`, `'N16'`; None for other rows."""
    blend = None if estimate is None else parse_estimate_label(estimate)[1]
    if blend is None:
        return None
    return repr(str(blend)) if blend.is_prior else repr(blend.value)


def _export_command(server: str, study_id: int, study_name: str, row: LeaderboardRow) -> str:
    options = [
        ("--server", server),
        ("--config", str(row.configuration)),
        ("--arm", row.arm),
        ("--batch-size", str(row.batch_size)),
    ]
    if row.estimate:
        options.append(("--estimate", str(row.estimate)))
    if row.point:
        options.append(("--parameters", row.parameters))
    written = " ".join(f"{name} {shlex.quote(value)}" for name, value in options)
    return f"bln-search export {study_id} {written} --output {shlex.quote(f'{study_name}-{row.configuration}')}"


def _client_code(server: str, study_id: int, row: LeaderboardRow) -> str:
    estimate = "" if _find_weight_literal(row.estimate) is None else f", estimate={row.estimate!r}"
    return (
        "import os\n\nfrom bln_search.client import Client\n\n"
        f'with Client("{server}", os.environ["BLN_SEARCH_TOKEN"]) as client:\n'
        f"    rows = client.leaderboard({study_id}, arm={row.arm!r}, batch_size={row.batch_size}{estimate}).rows\n"
        f'row = next(row for row in rows if str(row.configuration) == "{row.configuration}")'
    )


def _rest_command(server: str, study_id: int, row: LeaderboardRow) -> str:
    address = url_with_query(
        f"{server}/api/v1/studies/{study_id}/leaderboard", arm=row.arm, batch_size=row.batch_size, estimate=row.estimate
    )
    return f'curl -H "Authorization: Bearer $BLN_SEARCH_TOKEN" {shlex.quote(address)}'
