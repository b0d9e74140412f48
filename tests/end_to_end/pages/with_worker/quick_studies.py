"""Studies that a worker trains within seconds."""

from __future__ import annotations

import yaml

QUICK = """name: {name}
data: {{name: digits, fraction: 0.3}}
model: {{name: mlp, widths: [16]}}
arms: [{{method: bln}}, {{method: ln}}]
seeds: [0, 1]
training: {{epochs: {epochs}, batch_size: 25}}
"""
FOR_EVER = 20_000


def spec(name, epochs):
    return yaml.safe_load(QUICK.format(name=name, epochs=epochs))
