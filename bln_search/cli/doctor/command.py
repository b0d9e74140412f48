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

from bln_search.cli.doctor.computation import check_computation
from bln_search.cli.doctor.database import check_database
from bln_search.cli.doctor.finding import Finding, FindingState, run_check, skipped
from bln_search.cli.doctor.folders import (
    check_checkpoint_store,
    check_data_sets,
    check_disk_space,
    check_written_folders,
)
from bln_search.cli.doctor.service_port import check_service_port
from bln_search.cli.doctor.versions import check_device, check_device_exists, check_precision, check_versions
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
    yield from run_check("versions", check_versions)
    yield from _iter_device_findings(settings, device, data, quick=quick)
    yield from run_check("database", lambda: check_database(settings, database))
    yield from run_check("disk space", lambda: check_disk_space(settings))
    yield from run_check("folders", lambda: check_written_folders(settings))
    if find_missing_training_package_error() is None:
        yield from run_check("data sets", lambda: check_data_sets(settings, data))
    yield from run_check("checkpoints", lambda: check_checkpoint_store(settings))
    yield from run_check("service port", lambda: check_service_port(host, port))


def _iter_device_findings(settings: Settings, device: str, data: Path | None, *, quick: bool) -> Iterator[Finding]:
    """Check device, precision, equality and speed; the last two need the device."""
    if find_missing_training_package_error() is not None:
        yield skipped("device", "needs the extra `train`")
        return
    missing = list(run_check("device", lambda: check_device_exists(device)))
    yield from missing
    yield from run_check("precision", check_precision)
    if missing:
        yield skipped("equality", f"there is no device {device}")
        yield skipped("speed", f"there is no device {device}")
        return
    environment = make_execution_environment(settings, data, device)
    yield from run_check("device", lambda: check_device(environment))
    if quick:
        yield skipped("equality", "left out by --quick")
        yield skipped("speed", "left out by --quick")
    else:
        yield from run_check("equality", lambda: check_computation(environment))


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
