"""The verbs, in the order and the panels of `bln-search --help`. A verb is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import Any, NamedTuple, Self

import typer
from typer.core import TyperGroup
from typer.main import get_group

from bln_search.core.garbage_collection import load_modules_without_garbage_collection


class Panel(StrEnum):
    """A panel of `bln-search --help`."""

    STUDIES = "Studies"
    RESULTS = "Results"
    NETWORKS = "Networks of your own"
    SERVICE = "Service"
    MAINTENANCE = "Maintenance"


class Verb(NamedTuple):
    """A verb, or a group of verbs.

    Attributes:
        module: Its module in `bln_search.cli`.
        name: Its function in the module; of a group its Typer application.
        summary: First paragraph of its help, for the list of verbs.
    """

    module: str
    name: str
    summary: str


VERBS: Mapping[Panel, Mapping[str, Verb]] = {
    Panel.STUDIES: {
        "init": Verb(
            "studies.skeleton",
            "write_study_skeleton",
            "Write a study file with comments to start from. It is valid as it is: it trains a small network on "
            "digits.",
        ),
        "validate": Verb("studies.validation", "validate", "Check a study file and print its arms and trials."),
        "run": Verb(
            "studies.run", "run", "Train and evaluate the remaining trials of a study, then print its ranked table."
        ),
        "list": Verb(
            "studies.listing", "list_studies", "List the studies of the database, or of a service, newest first."
        ),
        "show": Verb("studies.listing", "show", "Show a study: its trials, their states and checkpoints."),
        "logs": Verb(
            "studies.logs",
            "logs",
            "Print the event log of a study: attempts, epochs with their losses, results and failures with their "
            "reasons.",
        ),
        "tag": Verb("studies.changes", "tag", "Add tags to a study, remove tags, and print those that it has."),
        "delete": Verb(
            "studies.changes",
            "delete",
            "Delete a study with all its results and networks. A study that a live process runs is refused.",
        ),
    },
    Panel.RESULTS: {
        "leaderboard": Verb(
            "studies.results.leaderboard", "leaderboard", "Print the ranked table of a study, or write it to a file."
        ),
        "analyze": Verb(
            "studies.results.analysis",
            "analyze",
            "Print which rows differ significantly, which row is recommended, and its selection bias.",
        ),
        "plan": Verb(
            "studies.results.seed_plan",
            "plan",
            "Print how many seeds would decide between the arms of a study, by simulation from its results so far.",
        ),
        "compare": Verb(
            "studies.results.comparison",
            "compare",
            "Compare studies: their recommended rows, and the losses of every row that two of them have.",
        ),
        "probe": Verb(
            "studies.results.analysis",
            "probe",
            "Measure the trained networks of a study in other mini-batches, without training again.",
        ),
        "search-layers": Verb(
            "studies.results.layers",
            "search_layers",
            "Search the per-layer configurations of a study's trained networks, without training again.",
        ),
        "layers": Verb(
            "studies.results.layers",
            "layers",
            "Show the best per-layer configurations, their confirmation, and the effect of each switch in each layer.",
        ),
        "streams": Verb(
            "studies.results.streams",
            "streams",
            "Print the ranked arms of adaptation of a study: errors over its streams, calibration, cost, collapse.",
        ),
        "report": Verb(
            "studies.results.publish", "write_html_report", "Write a self-contained HTML report of a study."
        ),
        "manifest": Verb(
            "studies.results.publish",
            "write_manifest",
            "Write the provenance of a study's results: seeds, versions, hardware, hashes of data and checkpoints.",
        ),
        "export": Verb(
            "studies.results.export",
            "export",
            "Write a trained network with its configuration into a folder: weights, PyTorch and ONNX programs, "
            "model card.",
        ),
        "export-runs": Verb(
            "studies.results.runs",
            "export_runs",
            "Write the trials and the ranked table of a study to MLflow, TensorBoard or Weights & Biases.",
        ),
        "verify": Verb(
            "studies.results.verification",
            "verify",
            "Evaluate every network of a study again from its checkpoint and compare the results with the stored ones "
            "bitwise.",
        ),
    },
    Panel.NETWORKS: {
        "check": Verb(
            "check.command",
            "check",
            "Check a trained network: is it worse in evaluation mode than it could be, why, and what to do.",
        ),
    },
    Panel.SERVICE: {
        "serve": Verb(
            "service.processes",
            "serve",
            "Serve the REST API, and start a worker. The first start prints a link with an access token, once.",
        ),
        "worker": Verb(
            "service.processes",
            "worker",
            "Take studies from the queue of a database and run them, one after another.",
        ),
        "workers": Verb(
            "service.processes",
            "workers",
            "List the workers with a heartbeat within 30 s: those of the database, or of a service.",
        ),
        "submit": Verb(
            "studies.remote",
            "submit",
            "Submit a study to a service. A study that it has already is not created again.",
        ),
        "submit-results": Verb(
            "studies.remote",
            "submit_results",
            "Submit a saved ranked table of your own networks to a service, as a complete study.",
        ),
        "watch": Verb(
            "studies.remote",
            "watch",
            "Follow a study until it ends, or is paused or interrupted; then print its ranked table.",
        ),
        "pause": Verb(
            "studies.remote",
            "pause",
            "Stop a study within about a second, until `resume`; its finished trials are kept.",
        ),
        "resume": Verb("studies.remote", "resume", "Put a study back into the queue; it resumes where it stopped."),
        "cancel": Verb("studies.remote", "cancel", "Cancel a study; its finished trials are kept."),
        "retry": Verb(
            "studies.remote",
            "retry",
            "Put a study with failed trials back into the queue and run these trials again; the others are kept.",
        ),
        "token": Verb("service.tokens", "app", "Access tokens of a service: their scopes and expiry."),
        "share-link": Verb("service.share_links", "app", "Links that show one study to people without an account."),
    },
    Panel.MAINTENANCE: {
        "doctor": Verb(
            "doctor.command",
            "doctor",
            "Check this installation: versions, devices, database, folders, checkpoints, port, clock, and a small "
            "trial.",
        ),
        "settings": Verb(
            "maintenance.settings_list",
            "show_settings",
            "Print every setting with its value, its environment variable and its description.",
        ),
        "backup": Verb(
            "maintenance.backups",
            "backup",
            "Copy the database and its checkpoints into a backup. Service and workers may run meanwhile.",
        ),
        "backups": Verb(
            "maintenance.backups",
            "list_backups",
            "List the backups of a folder, newest first. `restore --backup MOMENT` restores one of them.",
        ),
        "restore": Verb(
            "maintenance.backups",
            "restore",
            "Restore a backup into a database, SQLite or Postgres, and its checkpoint folder. Stop service and workers "
            "first.",
        ),
        "checkpoints": Verb(
            "maintenance.checkpoints", "app", "Files of trained networks: remove those that no study needs."
        ),
        "db": Verb("maintenance.database", "app", "The database: its schema revision and its upgrade."),
        "data": Verb("maintenance.data", "app", "Data sets: list them, verify their files, download them."),
    },
}


class VerbGroup(TyperGroup):
    """The command. Its `commands` have only the names and summaries of the verbs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Load the verb that is called."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load_verb(name), rest

    def load_all(self) -> Self:
        """Load every verb, and return the command."""
        self.commands.update({name: load_verb(name) for name in self.commands})
        return self


def add_summaries_to_app(app: typer.Typer) -> None:
    """Add the name and the summary of every verb, without its module."""
    for panel, verbs in VERBS.items():
        for name, verb in verbs.items():
            app.command(name, help=verb.summary, rich_help_panel=panel)(lambda: None)


@cache
def load_verb(name: str) -> Any:
    """Return the verb, or the group of verbs, of this name as a command of Typer."""
    panel, verb = next((panel, verbs[name]) for panel, verbs in VERBS.items() if name in verbs)
    with load_modules_without_garbage_collection():
        loaded = getattr(import_module(f"bln_search.cli.{verb.module}"), verb.name)
    app = typer.Typer()
    if isinstance(loaded, typer.Typer):
        for command in loaded.registered_commands:
            command.help = _docstring_with_joined_lines(command.callback)
        app.add_typer(loaded, name=name, help=verb.summary, rich_help_panel=panel)
    else:
        app.command(name, help=_docstring_with_joined_lines(loaded), rich_help_panel=panel)(loaded)
    return get_group(app).commands[name]


def _docstring_with_joined_lines(verb: Callable[..., object] | None) -> str:
    """Return the docstring of a verb with each paragraph in one line: Typer keeps the line breaks of the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (getdoc(verb) or "").split("\n\n"))
