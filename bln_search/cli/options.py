"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.output import Format


class ExecutorName(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    RAY = "ray"


StudyArgument = Annotated[str, typer.Argument(help="Name or number of a study.", show_default=False)]
DatabaseOption = Annotated[str | None, typer.Option("--database", help="Database URL. [env: BLN_SEARCH_DATABASE]")]
ServerOption = Annotated[
    str | None, typer.Option("--server", help="Service to use instead of the local database. [env: BLN_SEARCH_SERVER]")
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", help="Access token of that service. [env: BLN_SEARCH_TOKEN]", show_default=False),
]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format.")]
ToOption = Annotated[
    Path | None, typer.Option("--to", help="File to write, atomically.", show_default="standard output")
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", exists=True, file_okay=False, help="Folder of data sets. [env: BLN_SEARCH_DATA]"),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1 or auto.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Number of parallel trials; by default one per core or GPU.")
]
ExecutorOption = Annotated[ExecutorName, typer.Option("--executor", help="Processes on this machine, or Ray Tune.")]
RayAddressOption = Annotated[
    str | None, typer.Option("--ray-address", help="Ray cluster to join, host:port; by default a new one is started.")
]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-trial", min=0.0, help="With ray: number of GPUs, or a fraction of one.")
]
