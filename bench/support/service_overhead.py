"""Wall time of a short study through the service, compared with `bln-search run`."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.support.reporting import spread
from bench.support.service_process import PROGRAM, run_service
from bln_search.client import Client
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger

OVERHEAD_STUDY = """
name: minute
data: {{name: digits}}
model: {{name: mlp, widths: [128, 64]}}
arms: [{{method: bln}}]
training: {{epochs: {epochs}, batch_size: 25}}
seeds: [0, 1, 2, 3]
"""


def measure_overhead(epochs: int, pairs: int) -> dict[str, float]:
    """Return the wall time of a study in the service over that of `bln-search run`, minus one.

    The time is that from acceptance to completion in the ledger: waiting in the queue, data, trials and evaluations.
    It excludes the start of Python and torch.
    """
    ratios = []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            run_seconds = _time_run(Path(folder), epochs)
        with tempfile.TemporaryDirectory() as folder:
            ratios.append(_time_service(Path(folder), epochs) / run_seconds - 1)
    return spread(ratios)


def _environment(home: Path) -> dict[str, str]:
    folders = {"BLN_SEARCH_HOME": str(home), "BLN_SEARCH_CACHE": str(home / "cache")}
    return {**os.environ, **folders, "PYTHONPATH": ":".join(sys.path)}


def _time_run(folder: Path, epochs: int) -> float:
    """Return the seconds from acceptance to completion with `bln-search run`."""
    file = folder / "minute.yaml"
    file.write_text(OVERHEAD_STUDY.format(epochs=epochs))
    command = [sys.executable, "-c", PROGRAM, "run", str(file), "--format", "csv"]
    subprocess.run(command, env=_environment(folder), check=True, capture_output=True)
    return _study_seconds(folder)


def _time_service(folder: Path, epochs: int) -> float:
    """Return the seconds from acceptance to completion in a service with an idle worker."""
    with run_service(folder, _environment(folder)) as (host, port):
        while not _is_ready(host, port):
            time.sleep(0.1)
        with Client(f"http://{host}:{port}", (folder / "token").read_text().strip()) as client:
            study_id = client.submit(parse_study(OVERHEAD_STUDY.format(epochs=epochs)))["id"]
            for _ in client.follow_events(study_id):
                pass
    return _study_seconds(folder)


def _is_ready(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", "/readyz")
    status = connection.getresponse().status
    connection.close()
    return status == 200


def _study_seconds(home: Path) -> float:
    """Return the seconds from acceptance to completion."""
    ledger = open_and_upgrade_ledger(Settings(home=home).database_url)
    (study,) = ledger.studies.list_studies()
    ledger.close()
    assert study.ended_at is not None
    return (study.ended_at - study.created_at).total_seconds()
