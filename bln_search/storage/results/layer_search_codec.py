"""Encodes the records of per-layer searches as JSON and bytes, and decodes them."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import DamagedRecordError, LedgerError
from bln_search.core.layer_search_record import LayerSearchRecord, LayerSums
from bln_search.core.per_layer import Choice, ConfigurationSpace
from bln_search.core.records import Outcomes

Arrays = Mapping[str, NDArray[Any]]


def encode_arrays(arrays: Arrays) -> bytes:
    """Named arrays in the format of np.savez_compressed."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def decode_arrays(packed: bytes) -> Arrays:
    """Decode named arrays. Raises DamagedRecordError where it is damaged."""
    try:
        with np.load(io.BytesIO(packed), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedRecordError(f"stored per-layer figures are damaged: {error}") from None


def encode_sums(sums: LayerSums) -> bytes:
    """Encode sums of losses and of correct predictions."""
    arrays: dict[str, NDArray[Any]] = {
        "losses": sums.losses,
        "correct": sums.correct.astype(np.int32),
        "examples": sums.examples,
    }
    return encode_arrays(arrays if sums.digits is None else {**arrays, "digits": sums.digits})


def decode_sums(packed: bytes) -> LayerSums:
    """Decode the bytes of `encode_sums`. Raises LedgerError where an array is missing."""
    arrays = decode_arrays(packed)
    try:
        return LayerSums(arrays.get("digits"), arrays["losses"], arrays["correct"].astype(np.int64), arrays["examples"])
    except KeyError as error:
        raise LedgerError(f"stored per-layer figures lack {error}") from None


def encode_record_outcomes(record: LayerSearchRecord) -> bytes:
    """Encode outcomes of single examples: of the best configurations, and of the cross-validated choice."""
    n = len(record.confirmed.losses)
    kept = np.array([one.losses for one in record.outcomes], np.float32).reshape(-1, n)
    right = np.array([one.correct for one in record.outcomes], bool).reshape(-1, n)
    both = record.confirmed, record.confirmed_uniform
    return encode_arrays(
        {
            "kept": record.kept,
            "losses": kept,
            "correct": np.packbits(right, axis=1),
            "confirmed_losses": np.array([one.losses for one in both], np.float32),
            "confirmed_correct": np.array([one.correct for one in both], bool),
        }
    )


def encode_body(record: LayerSearchRecord) -> str:
    """Encode everything but the arrays as JSON."""
    space = record.space
    choices = [
        {"name": one.name, "layers": one.layers, "options": [[str(word) for word in words] for words in one.options]}
        for one in space.choices
    ]
    return json.dumps(
        {
            "layers": space.layers,
            "choices": choices,
            "left_out": {name: dict(reasons) for name, reasons in record.excluded.items()},
            "evaluations": record.evaluations,
            "best": record.best,
            "uniform": record.uniform,
            "chosen": record.chosen,
            "chosen_uniform": record.chosen_uniform,
            "apparent": record.apparent,
            "apparent_uniform": record.apparent_uniform,
            "effects": [[*names, value] for names, value in record.effects.items()],
            "marginal": record.marginal,
            "test": record.test,
        }
    )


def decode_record(body: str, sums: bytes, outcomes: bytes) -> LayerSearchRecord:
    """Decode a record. Raises DamagedRecordError where it is damaged."""
    arrays = decode_arrays(outcomes)
    try:
        written = json.loads(body)
        losses, correct = arrays["confirmed_losses"], arrays["confirmed_correct"]
        n = losses.shape[1]
        bits = np.unpackbits(arrays["correct"], axis=1, count=n).astype(bool)
        test = written["test"]
        return LayerSearchRecord(
            space=_space(written),
            excluded=written["left_out"],
            evaluations=float(written["evaluations"]),
            best=tuple(written["best"]),
            uniform=tuple(written["uniform"]),
            chosen=tuple(tuple(one) for one in written["chosen"]),
            chosen_uniform=tuple(tuple(one) for one in written["chosen_uniform"]),
            apparent=float(written["apparent"]),
            apparent_uniform=float(written["apparent_uniform"]),
            confirmed=Outcomes(losses[0], correct[0]),
            confirmed_uniform=Outcomes(losses[1], correct[1]),
            effects={(choice, statistic): float(value) for choice, statistic, value in written["effects"]},
            marginal=bool(written["marginal"]),
            sums=decode_sums(sums),
            kept=arrays["kept"],
            outcomes=tuple(Outcomes(loss, right) for loss, right in zip(arrays["losses"], bits, strict=True)),
            test=None if test is None else ((test[0][0], test[0][1]), (test[1][0], test[1][1])),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedRecordError(f"a stored per-layer search is damaged: {error}") from None


def _space(written: Mapping[str, Any]) -> ConfigurationSpace:
    return ConfigurationSpace(
        tuple(written["layers"]),
        tuple(
            Choice(
                one["name"],
                tuple(one["layers"]),
                tuple(tuple(InferenceConfiguration(word) for word in words) for words in one["options"]),
            )
            for one in written["choices"]
        ),
    )
