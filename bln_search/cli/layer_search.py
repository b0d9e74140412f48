"""The verb that searches per-layer configurations of a study that was run: search-layers."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer
from pydantic import ValidationError

from bln_search.cli.environment import make_place
from bln_search.cli.output import errors
from bln_search.cli.sources import DatabaseOption, StudyArgument
from bln_search.cli.studies import DataOption, DeviceOption, WorkersOption
from bln_search.core.enums import LayerScope, LayerSearch, PopulationEstimate
from bln_search.core.errors import DataError, ModelError
from bln_search.settings import load_settings
from bln_search.specs.layer_search import LayersSpec
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import open_ledger


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("search-layers")(search_layers)


def search_layers(
    study: StudyArgument,
    search: Annotated[
        LayerSearch | None, typer.Option("--search", help="How; by default as the study says, or exact.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Layers that share a word, as in early=features.*; repeatable.")
    ] = None,
    estimate: Annotated[
        PopulationEstimate | None, typer.Option("--estimate", help="Where population values come from.")
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option("--evaluations", min=16, max=1_000_000, help="At most so many, where not exact.")
    ] = None,
    folds: Annotated[int | None, typer.Option("--folds", min=2, max=20, help="Parts of the validation split.")] = None,
    workers: WorkersOption = None,
    database: DatabaseOption = None,
    data: DataOption = None,
    device: DeviceOption = None,
) -> None:
    """Search the per-layer configurations of a study's trained networks, without training again.

    Interrupted at any moment, the same command goes on: what is finished is kept. `bln-search layers` shows the result.
    """
    from bln_search.worker.analysis import Searched, analyze
    from bln_search.worker.layer_search import search_layers as search_networks

    settings = load_settings()
    with closing(open_ledger(database or settings.database_url)) as ledger:
        found = ledger.find_study(study)
        given = {
            "search": search,
            "estimate": estimate,
            "evaluations": evaluations,
            "folds": folds,
            **({} if group is None else {"scope": LayerScope.GROUPS, "groups": _groups(group)}),
        }
        asked = _asked(found.spec, {name: value for name, value in given.items() if value})
        place = make_place(settings, data, device)
        try:
            searched = search_networks(
                ledger,
                found.id,
                place,
                asked,
                lambda line: errors.print(line, markup=False, soft_wrap=True),
                workers=workers,
            )
        except (DataError, ModelError) as error:  # of some of the networks
            analyze(ledger, found.id, None, searched=Searched(str(error)))
            raise
        analyze(ledger, found.id, None, searched=Searched())
    errors.print(f"{searched} networks searched; `bln-search layers {found.id}` shows what was found", markup=False)


def _asked(study: StudySpec, given: dict[str, object]) -> LayersSpec:
    """What the study says, with what is given here instead."""
    layers = {**(study.layers or LayersSpec()).model_dump(), **given}
    try:
        StudySpec.model_validate({**study.model_dump(), "layers": layers})
        return LayersSpec.model_validate(layers)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise typer.BadParameter(problem, param_hint="search-layers") from None


def _groups(written: list[str]) -> dict[str, list[str]]:
    """`early=features.*` as groups."""
    groups: dict[str, list[str]] = {}
    for one in written:
        name, separator, pattern = one.partition("=")
        if not separator or not name or not pattern:
            raise typer.BadParameter(f"{one!r} is not a group such as early=features.*", param_hint="--group")
        groups.setdefault(name, []).append(pattern)
    return groups
