"""Decoded data sets, kept as plain `.npy` arrays so that unpacking happens once. Nothing here is ever unpickled."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.data.dataset import DataSet

_ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels")
_FACTS = "facts.json"
_log = logging.getLogger(__name__)


def read_cache(folder: Path, name: str, version: str, classes: tuple[str, ...]) -> DataSet | None:
    """The data set decoded earlier from files of these checksums, or None where it is absent or damaged."""
    place = folder / f"{name}-{version}"
    if not place.is_dir():
        return None
    try:
        arrays = {array: np.load(place / f"{array}.npy", allow_pickle=False) for array in _ARRAYS}
        facts = {} if _without_facts(place, arrays["train_inputs"]) else _read_facts(place / _FACTS)
    except (OSError, ValueError, EOFError) as error:
        _log.warning("the decoded copy in %s is damaged (%s); decoding again", place, error)
        shutil.rmtree(place, ignore_errors=True)
        return None
    return DataSet(name=name, classes=classes, **arrays, **facts)


def _without_facts(place: Path, inputs: NDArray[Any]) -> bool:
    """Is it a copy from before there were facts, when all inputs were bytes?"""
    return inputs.dtype == np.uint8 and not (place / _FACTS).exists()


def _read_facts(path: Path) -> dict[str, Any]:
    """What a data set has beside its arrays. Raises ValueError where it is not what `write_cache` wrote."""
    facts = json.loads(path.read_text("utf-8"))
    if not isinstance(facts, dict):
        raise ValueError(f"{path.name} holds no facts")  # noqa: TRY004 - as every other damage
    scale, vocabulary, remarks = facts.get("scale", 255.0), facts.get("vocabulary", ""), facts.get("remarks")
    if (
        type(scale) is not float
        or not (vocabulary is None or type(vocabulary) is int)
        or not isinstance(remarks, list)
        or not all(isinstance(remark, str) for remark in remarks)
    ):
        raise ValueError(f"{path.name} holds other facts")
    return {"scale": scale, "vocabulary": vocabulary, "remarks": tuple(remarks)}


def write_cache(folder: Path, version: str, data: DataSet) -> None:
    """Keep `data`, whole or not at all; a full or read-only disk is reported and does no harm."""
    place = folder / f"{data.name}-{version}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{data.name}-") as unfinished:
            part = Path(unfinished) / "part"
            part.mkdir()
            for array in _ARRAYS:
                np.save(part / f"{array}.npy", getattr(data, array), allow_pickle=False)
            facts = {"scale": float(data.scale), "vocabulary": data.vocabulary, "remarks": data.remarks}
            (part / _FACTS).write_text(json.dumps(facts), "utf-8")
            if not place.exists():
                part.rename(place)
    except OSError as error:
        _log.warning("the decoded %s could not be kept in %s (%s); it will be decoded again", data.name, folder, error)
