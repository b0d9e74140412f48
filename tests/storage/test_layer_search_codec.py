"""Encoding of per-layer searches: damaged data are rejected or harmless."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given

from bln_search.core.errors import DamagedRecordError, LedgerError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.layer_search_record import FoldScoreSums
from bln_search.core.per_layer import ConfigurationSpace
from bln_search.storage.results.array_codec import decode_arrays, encode_arrays
from bln_search.storage.results.layer_search_codec import (
    decode_fold_sums,
    decode_record,
    encode_fold_sums,
    encode_record_as_json,
    encode_record_outcomes,
)
from tests.search.layers.tables import choice, space_of
from tests.storage.searches import assert_same, make_search_record
from tests.support.per_layer_spaces import spaces

TIED = space_of(choice("ends", [0, 2]), choice("middle", [1], "bn"))


def encode(record):
    return encode_record_as_json(record), encode_fold_sums(record.sums), encode_record_outcomes(record)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"digits": [(0, 1), (3, 3), (15, 15)]},
        {"test": False, "left_out": False},
        {"outcome_count": 1, "examples": (1, 1, 1)},
        {"examples": (8, 8)},
        {"space": TIED},
    ],
)
def test_record_survives_encoding(options):
    record = make_search_record(**options)
    assert_same(decode_record(*encode(record)), record)


def test_double_precision_outcomes_are_stored_in_single():
    record = make_search_record()
    double = ExampleOutcomes(record.confirmed.losses.astype(np.float64) + 1e-12, record.confirmed.correct)
    decoded = decode_record(
        *encode(dataclasses.replace(record, confirmed=double, outcomes=(double,), kept=record.kept[:1]))
    )
    for stored in (decoded.confirmed, *decoded.outcomes):
        assert stored.losses.dtype == np.float32
        np.testing.assert_array_equal(stored.losses, double.losses.astype(np.float32))


@given(spaces())
def test_every_space_survives_encoding(space):
    if (
        len(space.choices) > 1
        and space.num_configurations > 6
        and len(space.choice_digits_by_uniform_configuration()) > 1
    ):
        record = make_search_record(
            space=space, digits=[space.choice_digits_at_index(0), space.choice_digits_at_index(1)]
        )
        assert_same(decode_record(*encode(record)), record)
        assert isinstance(decode_record(*encode(record)).space, ConfigurationSpace)


def test_partial_sums_survive_encoding():
    sums = make_search_record().sums
    assert_same(decode_fold_sums(encode_fold_sums(sums)), sums)


def test_nan_sums_survive_encoding():
    sums = FoldScoreSums(None, np.array([[np.nan, np.inf, 1.0]]), np.zeros((1, 3), np.int64), np.array([4]))
    assert_same(decode_fold_sums(encode_fold_sums(sums)), sums)
    assert sums.mean_loss_per_configuration.tolist() == [np.inf, np.inf, 0.25]


@pytest.mark.parametrize("packed", [b"", b"x", b"PK\x03\x04", encode_arrays({"a": np.arange(9)})[:-30]])
def test_truncated_bytes_raise_damaged_record_error(packed):
    with pytest.raises(DamagedRecordError):
        decode_arrays(packed)


@pytest.mark.parametrize("bits", [1, 32, 255])
def test_changed_byte_is_detected_or_harmless(bits):
    arrays = {"losses": np.linspace(0, 1, 20), "examples": np.arange(3)}
    packed = encode_arrays(arrays)
    for position in range(len(packed)):
        changed_byte = bytes([packed[position] ^ bits])
        try:
            decoded = decode_arrays(packed[:position] + changed_byte + packed[position + 1 :])
        except LedgerError:
            continue
        assert all(np.array_equal(decoded[name], arrays[name]) for name in arrays if name in decoded)


def test_decoding_never_unpickles():
    with pytest.raises(LedgerError, match="damaged"):
        decode_arrays(encode_arrays({"a": np.array([{"x": 1}], dtype=object)}))


@pytest.mark.parametrize("name", ["losses", "correct", "examples"])
def test_missing_array_is_named(name):
    arrays = dict(decode_arrays(encode_fold_sums(make_search_record().sums)))
    del arrays[name]
    with pytest.raises(LedgerError, match=f"lack '{name}'"):
        decode_fold_sums(encode_arrays(arrays))


@pytest.mark.parametrize("name", ["kept", "losses", "correct", "confirmed_losses", "confirmed_correct"])
def test_outcomes_without_an_array_are_damaged(name):
    body, sums, outcomes = encode(make_search_record())
    arrays = dict(decode_arrays(outcomes))
    del arrays[name]
    with pytest.raises(LedgerError, match="a stored per-layer search is damaged"):
        decode_record(body, sums, encode_arrays(arrays))


@pytest.mark.parametrize("key", json.loads(encode_record_as_json(make_search_record())))
@pytest.mark.parametrize("value", [None, 7, "x", [["x"]]])
def test_changed_body_is_damaged_or_readable(key, value):
    body, sums, outcomes = encode(make_search_record())
    document = json.loads(body)
    for changed_document in (
        {**document, key: value},
        {name: field for name, field in document.items() if name != key},
    ):
        try:
            decode_record(json.dumps(changed_document), sums, outcomes)
        except LedgerError as error:
            assert "damaged" in str(error)
    with pytest.raises(LedgerError, match="damaged"):
        decode_record(body[:-5], sums, outcomes)
