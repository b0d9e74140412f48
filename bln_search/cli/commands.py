"""The verbs of the command, in the order and the panels of `bln-search --help`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from inspect import getdoc

import typer

from bln_search.cli.doctor.command import doctor
from bln_search.cli.maintenance import backups, checkpoints, data, database, settings_list
from bln_search.cli.service import processes, share_links, tokens
from bln_search.cli.studies import changes, listing, logs, remote, run, skeleton, validation
from bln_search.cli.studies.results import analysis, comparison, export, layers, leaderboard, publish, verification


class Panel(StrEnum):
    """A panel of `bln-search --help`."""

    STUDIES = "Studies"
    RESULTS = "Results"
    SERVICE = "Service"
    MAINTENANCE = "Maintenance"


VERBS: Mapping[Panel, Mapping[str, Callable[..., None]]] = {
    Panel.STUDIES: {
        "init": skeleton.write_study_skeleton,
        "validate": validation.validate,
        "run": run.run,
        "list": listing.list_studies,
        "show": listing.show,
        "logs": logs.logs,
        "tag": changes.tag,
        "delete": changes.delete,
    },
    Panel.RESULTS: {
        "leaderboard": leaderboard.leaderboard,
        "analyze": analysis.analyze,
        "compare": comparison.compare,
        "probe": analysis.probe,
        "search-layers": layers.search_layers,
        "layers": layers.layers,
        "report": publish.write_html_report,
        "manifest": publish.write_manifest,
        "export": export.export,
        "verify": verification.verify,
    },
    Panel.SERVICE: {
        "serve": processes.serve,
        "worker": processes.worker,
        "workers": processes.workers,
        "submit": remote.submit,
        "submit-results": remote.submit_results,
        "watch": remote.watch,
        "pause": remote.pause,
        "resume": remote.resume,
        "cancel": remote.cancel,
        "retry": remote.retry,
    },
    Panel.MAINTENANCE: {
        "doctor": doctor,
        "settings": settings_list.show_settings,
        "backup": backups.backup,
        "backups": backups.list_backups,
        "restore": backups.restore,
    },
}

GROUPS: Mapping[Panel, Mapping[str, typer.Typer]] = {
    Panel.SERVICE: {"token": tokens.app, "share-link": share_links.app},
    Panel.MAINTENANCE: {"checkpoints": checkpoints.app, "db": database.app, "data": data.app},
}


def add_verbs_to_app(app: typer.Typer) -> None:
    """Add every verb and every group of verbs."""
    for panel, verbs in VERBS.items():
        for name, verb in verbs.items():
            app.command(name, help=_docstring_with_joined_lines(verb), rich_help_panel=panel)(verb)
    for panel, groups in GROUPS.items():
        for name, group in groups.items():
            for command in group.registered_commands:
                if command.callback is not None:
                    command.help = _docstring_with_joined_lines(command.callback)
            app.add_typer(group, name=name, rich_help_panel=panel)


def _docstring_with_joined_lines(verb: Callable[..., object]) -> str:
    """Return the docstring of a verb with each paragraph in one line: Typer keeps the line breaks of the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (getdoc(verb) or "").split("\n\n"))
