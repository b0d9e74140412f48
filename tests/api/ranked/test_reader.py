"""Ranked tables that are saved and loaded; damaged and foreign files."""

from __future__ import annotations

import copy
import json
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file

import bln_search
from bln_search.api.ranked.file import FORMAT_VERSION, ranked_file_content_sha256
from bln_search.core.errors import DataError, OutputFileError
from bln_search.core.version import VERSION
from tests.api.own_network import make_loader, make_network
from tests.api.shifted_data import conditions, make_data, trained

TRAIN = {"source": make_data(200, 1), "target": make_data(60, 5, scale=2.0)}
NETWORKS = [trained(seed) for seed in range(2)]


def evaluate_bln():
    return bln_search.evaluate_configurations(
        make_network(), make_loader(), make_loader(seed=1), test_loader=make_loader(seed=2), batch_sizes=[5, 25]
    )


def evaluate_undefined():
    return bln_search.evaluate_configurations(make_network(), make_loader(size=1), make_loader(size=1, seed=1))


def evaluate_regression():
    loader = [(x.double(), x[:, :2].double()) for x, _ in make_loader(seed=1)]
    return bln_search.evaluate_configurations(make_network().double(), loader, loader, score="mse", blends=["N8"])


def evaluate_conditions():
    return bln_search.evaluate_configurations(NETWORKS[0], TRAIN, conditions(), batch_sizes=[4, 20], blends=[0.1])


def evaluate_networks():
    return bln_search.evaluate_configurations(NETWORKS, TRAIN, conditions()["large"], batch_sizes=[4, 20])


def evaluate_both():
    return bln_search.evaluate_configurations(NETWORKS, TRAIN, conditions())


KINDS = [
    evaluate_bln,
    evaluate_undefined,
    evaluate_regression,
    evaluate_conditions,
    evaluate_networks,
    evaluate_both,
    lambda: evaluate_networks().of_network(1),
    lambda: evaluate_conditions().at_batch_size(4),
]


def tables_of(ranked):
    tables = ranked.conditions.values() if isinstance(ranked, bln_search.RankedConditions) else [ranked]
    return [single for table in tables for single in table.per_network_tables]


def assert_equal(loaded, saved):
    assert type(loaded) is type(saved)
    for table, original in zip(tables_of(loaded), tables_of(saved), strict=True):
        for name in ("board", "class_prior", "per_slot", "deployed", "has_accuracy", "fingerprints", "network"):
            assert getattr(table, name) == getattr(original, name), name
        assert list(table.outcomes) == list(original.outcomes)
        for key, outcomes in original.outcomes.items():
            for name in ("losses", "correct"):
                values = getattr(table.outcomes[key], name)
                assert values.dtype == getattr(outcomes, name).dtype
                np.testing.assert_array_equal(values, getattr(outcomes, name))
        assert_equal_populations(table.populations, original.populations)
    assert loaded.to_records() == saved.to_records()
    assert str(loaded) == str(saved)


def assert_equal_populations(populations, originals):
    assert {name: set(layers) for name, layers in populations.items()} == {
        name: set(layers) for name, layers in originals.items()
    }
    for estimate, layers in originals.items():
        for layer, original in layers.items():
            for pair in ("batch", "feature"):
                loaded, saved = (getattr(value, pair) for value in (populations[estimate][layer], original))
                assert (loaded is None) == (saved is None)
                if saved is None:
                    continue
                assert loaded.reason == saved.reason
                for value, expected in ((loaded.mean, saved.mean), (loaded.deviation, saved.deviation)):
                    assert (value is None) == (expected is None)
                    assert value is None or (torch.equal(value, expected) and value.dtype == expected.dtype)


@pytest.mark.parametrize("kind", [0, 2, 6, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 4, 5))])
def test_a_loaded_table_equals_the_saved_one(kind, tmp_path):
    saved = KINDS[kind]()
    path = saved.save(tmp_path / "folder" / "ranked")
    assert path == tmp_path / "folder" / "ranked.safetensors"
    assert_equal(bln_search.load_ranked(path), saved)
    assert [file.name for file in path.parent.iterdir()] == ["ranked.safetensors"]


def test_rows_of_a_loaded_table_are_applied_alike(tmp_path):
    evaluate_both().save(tmp_path / "ranked")
    loaded, saved = bln_search.load_ranked(tmp_path / "ranked"), evaluate_both()
    inputs = make_data().dataset.tensors[0]
    for network in NETWORKS:
        outputs = [
            bln_search.apply_configuration(copy.deepcopy(network), table.recommended_for(over="mean")).eval()(inputs)
            for table in (loaded, saved)
        ]
        assert torch.equal(*outputs)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return evaluate_bln().save(tmp_path_factory.mktemp("saved") / "ranked").read_bytes()


def changed_byte(content, position):
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: b"a pickle, or anything else",
        lambda content: changed_byte(content, len(content) - 1),
        lambda content: changed_byte(content, len(content) - 5000),
        lambda content: content.replace(b"TTTT", b"FFFF"),
        lambda content: content.replace(VERSION.encode(), b"9" + VERSION.encode()[1:]),
    ],
)
def test_a_damaged_file_is_one_clear_error(content, damage, tmp_path):
    file = tmp_path / "ranked.safetensors"
    file.write_bytes(damage(content))
    with pytest.raises(DataError, match=r"ranked\.safetensors (is|has)"):
        bln_search.load_ranked(file)


@pytest.mark.parametrize("position", range(0, 2000, 97))  # the order of the fields differs between processes
def test_a_changed_byte_of_the_header_is_an_error(content, position, tmp_path):
    file = tmp_path / "ranked.safetensors"
    file.write_bytes(changed_byte(content, position))
    with pytest.raises(DataError):
        bln_search.load_ranked(file)


def write_changed_tables(content, change, file):
    """Write the ranked file with changed tables, whose SHA-256 is recorded."""
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    tables, tensors = json.loads(metadata["tables"]), load(content)
    change(tables)
    description = json.dumps(tables)
    sha256 = ranked_file_content_sha256(VERSION, description, tensors)
    save_file(tensors, file, metadata | {"tables": description, "sha256": sha256})


def test_an_unknown_key_of_a_row_is_ignored(content, tmp_path):
    def add_key(tables):
        tables["networks"][0]["tables"][0]["rows"][0]["of_a_later_version"] = 1

    write_changed_tables(content, add_key, tmp_path / "ranked.safetensors")
    assert len(bln_search.load_ranked(tmp_path / "ranked")) == len(evaluate_bln())


@pytest.mark.parametrize("change", [lambda tables: tables["networks"].clear(), lambda tables: tables.pop("networks")])
def test_malformed_tables_with_their_sha256_are_damaged(change, content, tmp_path):
    write_changed_tables(content, change, tmp_path / "ranked.safetensors")
    with pytest.raises(DataError, match="is damaged"):
        bln_search.load_ranked(tmp_path / "ranked")


def test_weights_are_not_a_ranked_table(tmp_path):
    save_file({"weight": torch.zeros(3)}, tmp_path / "weights.safetensors")
    with pytest.raises(DataError, match="not a file of ranked tables"):
        bln_search.load_ranked(tmp_path / "weights.safetensors")


def test_a_file_of_a_later_version_names_its_version(content, tmp_path):
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["format_version"] = str(FORMAT_VERSION + 1)
    written = json.dumps(header).encode()
    (tmp_path / "later.safetensors").write_bytes(struct.pack("<Q", len(written)) + written + content[8 + length :])
    with pytest.raises(DataError, match=f"format version {FORMAT_VERSION + 1}, this bln-search reads {FORMAT_VERSION}"):
        bln_search.load_ranked(tmp_path / "later")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFileError, match="cannot be written"):
        evaluate_undefined().save(tmp_path / "file" / "ranked")


def test_a_missing_file_and_a_folder_are_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        bln_search.load_ranked(tmp_path / "nothing")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(DataError):
        bln_search.load_ranked(tmp_path / "folder")
