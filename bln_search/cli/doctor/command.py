"""The command `doctor`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from bln_search.cli.doctor.devices import (
    iter_device_memory_findings,
    iter_equality_and_speed_findings,
    iter_missing_device_findings,
    iter_precision_findings,
    iter_version_findings,
)
from bln_search.cli.doctor.finding import Finding, FindingState, iter_check_findings, skipped
from bln_search.cli.doctor.service_port import iter_service_port_findings
from bln_search.cli.doctor.storage import (
    iter_checkpoint_store_findings,
    iter_data_set_findings,
    iter_database_findings,
    iter_disk_space_findings,
    iter_written_folder_findings,
)
from bln_search.cli.environment import make_execution_environment
from bln_search.cli.exit_codes import ExitCode
from bln_search.cli.extras import find_missing_training_package_error
from bln_search.cli.options import DatabaseOption, DataOption, DeviceOption
from bln_search.cli.output import print_line, results
from bln_search.settings import Settings, load_settings

_MARKS = {
    FindingState.OK: ("✓", "green"),
    FindingState.FAULT: ("✗", "bold red"),
    FindingState.SKIPPED: ("–", "dim"),
}


def doctor(
    device: DeviceOption = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address of the service.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65_535, metavar="PORT", help="Port of the service.")] = 8000,
    quick: Annotated[bool, typer.Option("--quick", help="Train nothing: no comparison of devices, no speed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check this installation: versions, devices, database, folders, checkpoints, port, clock, and a small trial.

    Each line begins with ✓ (it works), ✗ (a fault, followed by what to do) or – (not checked). The exit code is 1 if
    there is a fault. Studies are not touched; a test file is written to each folder and deleted.
    """
    settings = load_settings()
    findings = list(_iter_findings(settings, device or settings.device, data, database, host, port, quick=quick))
    is_sound = all(finding.state is not FindingState.FAULT for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": is_sound, "checks": [asdict(finding) for finding in findings]}, indent=1))
    else:
        _print_findings(findings)
    if not is_sound:
        raise typer.Exit(ExitCode.FAILED)


def _iter_findings(
    settings: Settings, device: str, data: Path | None, database: str | None, host: str, port: int, *, quick: bool
) -> Iterator[Finding]:
    yield from iter_check_findings("versions", iter_version_findings)
    yield from _iter_device_findings(settings, device, data, quick=quick)
    yield from iter_check_findings("database", lambda: iter_database_findings(settings, database))
    yield from iter_check_findings("disk space", lambda: iter_disk_space_findings(settings))
    yield from iter_check_findings("folders", lambda: iter_written_folder_findings(settings))
    if find_missing_training_package_error() is None:
        yield from iter_check_findings("data sets", lambda: iter_data_set_findings(settings, data))
    yield from iter_check_findings("checkpoints", lambda: iter_checkpoint_store_findings(settings, database))
    yield from iter_check_findings("service port", lambda: iter_service_port_findings(host, port))


def _iter_device_findings(settings: Settings, device: str, data: Path | None, *, quick: bool) -> Iterator[Finding]:
    """Check device, precision, equality and speed; the last two need the device."""
    if find_missing_training_package_error() is not None:
        yield skipped("device", "needs the extra `search`")
        return
    missing = list(iter_check_findings("device", lambda: iter_missing_device_findings(device)))
    yield from missing
    yield from iter_check_findings("precision", iter_precision_findings)
    if missing:
        yield skipped("equality", f"there is no device {device}")
        yield skipped("speed", f"there is no device {device}")
        return
    environment = make_execution_environment(settings, data, device)
    yield from iter_check_findings("device", lambda: iter_device_memory_findings(environment))
    if quick:
        yield skipped("equality", "left out by --quick")
        yield skipped("speed", "left out by --quick")
    else:
        yield from iter_check_findings("equality", lambda: iter_equality_and_speed_findings(environment))


def _print_findings(findings: list[Finding]) -> None:
    """Print a line for each finding, and below a fault what to do."""
    table = Table.grid(padding=(0, 1))
    for finding in findings:
        mark, style = _MARKS[finding.state]
        detail = Text(finding.detail)
        if finding.remedy:
            detail.append(f"\n→ {finding.remedy}", style="bold")
        table.add_row(Text(mark, style=style), Text(finding.name), detail)
    results.print(table)
    faults = sum(finding.state is FindingState.FAULT for finding in findings)
    print_line("no fault found" if not faults else f"{faults} {'fault' if faults == 1 else 'faults'} found")
