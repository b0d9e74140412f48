"""Small studies for tests of processes, and what they do with them."""

from __future__ import annotations

import httpx
import yaml

from tests.end_to_end.commands import call
from tests.end_to_end.service import until

STUDY = """
name: small
data: {name: digits, fraction: 0.2}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
seeds: [0, 1]
training: {epochs: EPOCHS, batch_size: 25}
"""
"""Two networks; EPOCHS is replaced by the number of epochs."""

EXPORT_STUDY = """
name: small
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 1}
seeds: [0, 1]
evaluation: {population: [frozen, epoch], batch_sizes: [25, 40]}
"""


def make_spec(epochs, name="small"):
    """Return the small study as plain data."""
    return {**yaml.safe_load(STUDY.replace("EPOCHS", str(epochs))), "name": name}


_LEADERBOARDS = {}


def run_alone(file, tmp_path):
    """Return the leaderboard of `bln-search run` as CSV; each study is run once."""
    text = file.read_text()
    if text not in _LEADERBOARDS:
        _LEADERBOARDS[text] = call("run", file, "--format", "csv", home=tmp_path / "alone", check=0).stdout
    return _LEADERBOARDS[text]


def list_events(service, study):
    """Return the events of a study."""
    address = f"{service.address}/api/v1/studies/{study}/events"
    return httpx.get(address, headers={"Authorization": f"Bearer {service.token}"}).json()["events"]


def wait_until_complete(client, study, seconds=120):
    until(lambda: client.study(study)["state"] == "complete", seconds)
