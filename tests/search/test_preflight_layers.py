"""Preflight checks of per-layer searches."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import DataError, ModelError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.search.preflight import run_preflight_checks
from bln_search.specs import parse_study

STUDY = """
name: layered
data: {name: digits, validation: 0.2}
model: {name: %s}
arms: [{method: bln}, {method: ln}]
training: {epochs: 1, batch_size: %d}
seeds: [0]
layers: %s
"""


def check(tmp_path, model, layers, batch_size=25):
    study = parse_study(STUDY % (model, batch_size, layers))
    run_preflight_checks(study, ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path)))


def test_searchable_network_passes(tmp_path):
    check(tmp_path, "mlp, widths: [8, 8]", "{search: exact}")
    check(tmp_path, "mlp, widths: [8, 8]", "{scope: groups, groups: {all: ['layers.*']}}")
    check(tmp_path, "resnet20, widths: [2, 2, 2]", "{search: coordinate}")
    check(tmp_path, "resnet20, widths: [2, 2, 2]", "{scope: global}")


def test_too_many_configurations_are_rejected_with_a_remedy(tmp_path):
    with pytest.raises(ModelError, match=r"19 normalization layers have .* set `search` to beam, coordinate"):
        check(tmp_path, "resnet20, widths: [2, 2, 2]", "{search: exact}")


def test_unmatched_patterns_are_rejected(tmp_path):
    with pytest.raises(ModelError, match=r"the pattern 'features\.\*' of the group 'a'"):
        check(tmp_path, "mlp, widths: [8, 8]", "{scope: groups, groups: {a: ['features.*']}}")


def test_more_folds_than_mini_batches_are_rejected(tmp_path):
    with pytest.raises(DataError, match="12 folds of 3 mini-batches"):
        check(tmp_path, "mlp, widths: [8, 8]", "{folds: 12}", batch_size=100)
