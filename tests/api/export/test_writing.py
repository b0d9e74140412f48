"""An export is written completely or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.api.export.study_export import export_trained_row
from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import DataError, ExportError
from bln_search.data import DataSet
from tests.api.trained import row_of, train

pytestmark = pytest.mark.xdist_group("export")  # the exports are made once


def test_network_on_token_ids_is_not_exported(tmp_path):
    draw = np.random.default_rng(0)
    marks = {f"{split}_inputs": draw.integers(0, 9, (300, 5)).astype(np.uint16) for split in ("train", "test")}
    labels = {f"{split}_labels": np.arange(300) % 2 for split in ("train", "test")}
    token_data = DataSet("words", ("no", "yes"), **marks, **labels, vocabulary=9)
    model = "{name: lstm, widths: [4], embedding: 3, dense: 4}"
    row, _ = row_of(train(tmp_path / "checkpoints", model, "{method: bln}", data=token_data), "FFFF")
    with pytest.raises(ExportError, match="words consists of token ids"):
        export_trained_row(row, FolderStore(tmp_path / "checkpoints"), token_data, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_the_same_row_has_the_same_weights_byte_for_byte(exported, networks, tmp_path):
    target, _, data = exported("mlp paper", "TTTT")
    checkpoints, trained, _ = networks("mlp paper")
    export_trained_row(row_of(trained, "TTTT")[0], checkpoints, data, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (target / "model.safetensors").read_bytes()


def test_a_damaged_checkpoint_is_not_exported(tmp_path, networks):
    _, trained, data = networks("mlp paper")
    row, _ = row_of(trained, "FFFF")
    (tmp_path / row.checkpoint.file).write_bytes(b"spoilt")
    with pytest.raises(DataError, match="is damaged: its SHA-256 is"):
        export_trained_row(row, FolderStore(tmp_path), data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
