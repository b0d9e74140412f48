"""Command `write_study_skeleton`: write a study file to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from bln_search.cli.output import check_output_path_writable, print_note, write_file_atomically
from bln_search.core.errors import OutputFileError
from bln_search.core.names import NAME_PATTERN
from bln_search.specs.yaml_document import parse_yaml_nodes_and_values

_DEFAULT_NAME = "my_study"

SKELETON = """\
# A study: what is trained, under which seeds, and how the trained networks are evaluated.
# Check it with `bln-search validate FILE`, run it with `bln-search run FILE`.
name: {name}
title: Digits, MLP, batch size 25
data:
  name: digits                 # `bln-search data list` lists the data sets
  validation: 0.2              # held out of the training set: a count, or a fraction below 1
  fraction: 1.0                # fraction of both splits that is used
model:
  name: mlp                    # mlp, lenet, nin, vgg16, resnet20, lstm and more
  widths: [128, 64]            # an option of this model
arms:                          # normalization methods, each trained with every seed
  - method: bln                # bn, ln, bln, mbn, brn, wn, normprop, ap2 or none
  # - {{method: bn}}
  # - {{method: ln}}
training:
  optimizer: adam              # adam or sgd
  learning_rate: 0.002
  epochs: 20
  batch_size: 25
  checkpoint: best_validation  # or last
seeds: [0, 1, 2]               # with one seed, results hold for that network only; five to ten are better
evaluation:
  population: [frozen]         # population estimates: frozen, epoch, moving
  # batch_sizes: [25, 100]     # inference mini-batch sizes; by default that of training
ranking:
  split: validation            # the split that ranks the rows; test is reported besides
# probes:                      # measured after training, without training again
#   batch_sizes: [1, 5, 25, 100]
#   reshuffles: 5
# space:                       # hyper-parameters to vary: a grid, or with `search` points that a sampler suggests
#   training.learning_rate: {{kind: float, low: 0.0001, high: 0.01, log: true}}
# search: {{sampler: tpe, trials: 20}}
# layers:                      # per-layer configurations, searched after training
#   scope: per_layer
#   search: coordinate
"""
"""A study file with comments; `name` is inserted."""


def write_study_skeleton(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write; an existing one is not overwritten.")
    ] = Path("study.yaml"),
) -> None:
    """Write a study file with comments to start from. It is valid as it is: it trains a small network on digits."""
    if output.exists():
        raise OutputFileError(f"{output} exists already: choose another file with --output")
    check_output_path_writable(output)
    write_file_atomically(output, SKELETON.format(name=_study_name_from_path(output)).encode())
    print_note(f"{output}: run it with `bln-search run {output}`")


def _study_name_from_path(path: Path) -> str:
    """Return the name of the study: that of the file if it can be one and is text in YAML."""
    if re.fullmatch(NAME_PATTERN, path.stem) is None:
        return _DEFAULT_NAME
    _, study = parse_yaml_nodes_and_values(f"name: {path.stem}")
    return path.stem if study["name"] == path.stem else _DEFAULT_NAME
