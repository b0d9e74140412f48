"""Encodes the records of per-layer searches as JSON and bytes, and decodes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import DamagedRecordError, LedgerError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.layer_search_record import FoldScoreSums, LayerSearchRecord
from bln_search.core.per_layer import ConfigurationSpace, LayerConfigurationOptions
from bln_search.storage.results.array_codec import decode_arrays, encode_arrays

_FIELDS = (
    *("evaluations", "best", "uniform", "chosen", "chosen_uniform"),
    *("apparent", "apparent_uniform", "marginal", "test"),
)
"""Fields of a record that JSON has under their names."""


def encode_fold_sums(sums: FoldScoreSums) -> bytes:
    """Encode sums of losses and of correct predictions."""
    arrays: dict[str, NDArray[Any]] = {
        "losses": sums.losses,
        "correct": sums.correct.astype(np.int32),
        "examples": sums.examples,
    }
    return encode_arrays(arrays if sums.digits is None else {**arrays, "digits": sums.digits})


def decode_fold_sums(packed: bytes) -> FoldScoreSums:
    """Decode the bytes of `encode_fold_sums`. Raises LedgerError where an array is missing."""
    arrays = decode_arrays(packed)
    try:
        return FoldScoreSums(
            arrays.get("digits"), arrays["losses"], arrays["correct"].astype(np.int64), arrays["examples"]
        )
    except KeyError as error:
        raise LedgerError(f"stored arrays of a per-layer search lack {error}") from None


def encode_record_outcomes(record: LayerSearchRecord) -> bytes:
    """Encode outcomes of single examples: of the best configurations, and of the cross-validated choice."""
    n = len(record.confirmed.losses)
    losses = np.array([outcomes.losses for outcomes in record.outcomes], np.float32).reshape(-1, n)
    correct = np.array([outcomes.correct for outcomes in record.outcomes], bool).reshape(-1, n)
    confirmed = record.confirmed, record.confirmed_uniform
    return encode_arrays(
        {
            "kept": record.kept,
            "losses": losses,
            "correct": np.packbits(correct, axis=1),
            "confirmed_losses": np.array([outcomes.losses for outcomes in confirmed], np.float32),
            "confirmed_correct": np.array([outcomes.correct for outcomes in confirmed], bool),
        }
    )


def encode_record_as_json(record: LayerSearchRecord) -> str:
    """Encode everything but the arrays as JSON."""
    space = record.space
    choices = [
        {
            "name": choice.name,
            "layers": choice.layers,
            "options": [[str(configuration) for configuration in option] for option in choice.options],
        }
        for choice in space.choices
    ]
    return json.dumps(
        {
            "layers": space.layers,
            "choices": choices,
            "left_out": {name: dict(reasons) for name, reasons in record.excluded.items()},
            **{name: getattr(record, name) for name in _FIELDS},
            "effects": [[*names, value] for names, value in record.effects.items()],
        }
    )


def decode_record(body: str, sums: bytes, outcomes: bytes) -> LayerSearchRecord:
    """Decode a record. Raises DamagedRecordError if a part is damaged."""
    arrays = decode_arrays(outcomes)
    try:
        fields = json.loads(body)
        losses, correct = arrays["confirmed_losses"], arrays["confirmed_correct"]
        n = losses.shape[1]
        bits = np.unpackbits(arrays["correct"], axis=1, count=n).astype(bool)
        return LayerSearchRecord(
            space=_decode_configuration_space(fields),
            excluded=fields["left_out"],
            **{name: _convert_lists_to_tuples(fields[name]) for name in _FIELDS},
            confirmed=ExampleOutcomes(losses[0], correct[0]),
            confirmed_uniform=ExampleOutcomes(losses[1], correct[1]),
            effects={(choice, statistic): float(value) for choice, statistic, value in fields["effects"]},
            sums=decode_fold_sums(sums),
            kept=arrays["kept"],
            outcomes=tuple(
                ExampleOutcomes(losses, correct) for losses, correct in zip(arrays["losses"], bits, strict=True)
            ),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedRecordError(f"a stored per-layer search is damaged: {error}") from None


def _convert_lists_to_tuples(value: Any) -> Any:
    return tuple(map(_convert_lists_to_tuples, value)) if isinstance(value, list) else value


def _decode_configuration_space(fields: Mapping[str, Any]) -> ConfigurationSpace:
    return ConfigurationSpace(
        tuple(fields["layers"]),
        tuple(
            LayerConfigurationOptions(
                choice["name"],
                tuple(choice["layers"]),
                tuple(tuple(InferenceConfiguration(code) for code in option) for option in choice["options"]),
            )
            for choice in fields["choices"]
        ),
    )
