"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.completion import complete_study_name
from bln_search.cli.output import DocumentFormat, RecordsFormat
from bln_search.core.enums import PopulationEstimate, Split


class ExecutorName(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    FUSED = "fused"
    RAY = "ray"


class ValidationOrTestSplit(StrEnum):
    """A split on which rows are evaluated."""

    VALIDATION = Split.VALIDATION.value
    TEST = Split.TEST.value


class SelectablePopulationEstimate(StrEnum):
    """A population estimate that a row is named by; the memory of MBN is read without being named."""

    FROZEN = PopulationEstimate.FROZEN.value
    EPOCH = PopulationEstimate.EPOCH.value
    MOVING = PopulationEstimate.MOVING.value


def add_environment_variable_to_help(text: str, setting: str) -> str:
    """Return a help text that names the environment variable an option falls back to.

    Args:
        text: The help text.
        setting: Name of the setting.
    """
    return f"{text} \\[env: BLN_SEARCH_{setting.upper()}]"  # an unescaped bracket is markup, which is not printed


StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="Number of a study, or name of your own.",
        show_default=False,
        autocompletion=complete_study_name,
    ),
]
StudyFileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Study file.", show_default=False)]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help=add_environment_variable_to_help("Database URL.", "database")),
]
QueueDatabaseOption = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="Database to use without a service.")
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help=add_environment_variable_to_help("Service to use instead of the local database.", "server"),
    ),
]
ServiceOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help=add_environment_variable_to_help("Address of the service; by default http://127.0.0.1:8000.", "server"),
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help=add_environment_variable_to_help("Access token of that service.", "token"),
        show_default=False,
    ),
]
FormatOption = Annotated[RecordsFormat, typer.Option("--format", help="Output format.")]
DocumentFormatOption = Annotated[DocumentFormat, typer.Option("--format", help="Output format.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write, atomically; by default standard output."),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Largest number of rows, in every format.")
]
DetailsOption = Annotated[
    bool, typer.Option("--details", help="Print every column, and the statistics behind the recommendation.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        exists=True,
        file_okay=False,
        metavar="DIR",
        help=add_environment_variable_to_help("Folder of data sets.", "data"),
    ),
]
AcceptCodeChangeOption = Annotated[
    bool,
    typer.Option(
        "--accept-code-change",
        help="Use changed code of models, data sets and tasks of packages; the change is shown with the results.",
        rich_help_panel="Changed code",  # its long name would take the width of the other helps
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help=add_environment_variable_to_help(
            "cpu, cuda (all GPUs), GPUs by index or UUID (cuda:1, cuda:0,2), or auto.", "device"
        ),
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="Number of parallel trials; by default one per core or GPU."),
]
TrialsPerGpuOption = Annotated[
    int | None,
    typer.Option(
        "--trials-per-gpu",
        min=1,
        max=64,
        metavar="N",
        help=add_environment_variable_to_help("Number of parallel trials on each GPU.", "trials_per_gpu"),
    ),
]
SplitOption = Annotated[
    ValidationOrTestSplit | None, typer.Option("--split", help="Split that ranks the rows; by default the study's.")
]
ExecutorOption = Annotated[
    ExecutorName | None,
    typer.Option(
        "--executor",
        help="Processes on this machine; the same with fused trials; or Ray Tune. By default fused on a GPU, else "
        "local.",
        show_default=False,
    ),
]
FusedTrialsOption = Annotated[
    int | None,
    typer.Option(
        "--fused-trials",
        min=2,
        max=1024,
        metavar="N",
        help="With fused, ray: trials that a process trains together; with fused by default 8, on a GPU 64.",
    ),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="Ray cluster to join; by default a new one is started.",
    ),
]
GpusOption = Annotated[
    float | None,
    typer.Option("--gpus-per-trial", min=0.0, metavar="N", help="With ray: number of GPUs, or a fraction of one."),
]
