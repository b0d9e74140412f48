"""Random inputs have the form of the data set in whose place they are used."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bln_search.core.built_in_data_sets import BUILT_IN_DATA_SETS
from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data import CATALOG, load_data_set
from bln_search.data.prepared import prepare_data_set
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.specs.sections.data import DataSpec


@pytest.mark.parametrize("name", BUILT_IN_DATA_SETS)
def test_the_description_of_a_data_set_agrees_with_its_catalogue_entry(name):
    info, entry = BUILT_IN_DATA_SETS[name], CATALOG[name]
    assert (info.task, info.is_lazy, entry.name) == (entry.task, entry.prepare is not None, name)
    assert info.has_several_inputs == (not isinstance(entry.format.shape, tuple))
    assert entry.format.outputs == (len(entry.classes) or entry.format.outputs)
    assert info.examples is not None
    if info.text_length is not None:
        assert entry.format.shape == (info.text_length,)
        assert info.has_fixed_length == (entry.find_with_length is None)


def test_inputs_are_those_of_the_data_set_in_type_and_shape():
    spec = DataSpec(name="digits")
    real, random = (
        prepare_data_set(load_data_set("digits", Path("unused")), spec),
        make_synthetic_prepared_data(spec, 40),
    )
    for name in ("input_shape", "num_outputs", "vocabulary", "task"):
        assert getattr(random, name) == getattr(real, name)
    for split in Split:
        (inputs, targets), (real_inputs, real_targets) = random.splits[split], real.splits[split]
        assert inputs.shape == (40, *real_inputs.shape[1:])
        assert (inputs.dtype, targets.dtype) == (real_inputs.dtype, real_targets.dtype)


def test_texts_are_token_ids_without_padding():
    texts = make_synthetic_prepared_data(DataSpec(name="imdb"), 30)
    inputs, targets = texts.splits[Split.TRAIN]
    assert inputs.shape == (30, 80)
    assert inputs.dtype == torch.int64
    assert 1 <= inputs.min() <= inputs.max() < texts.vocabulary
    assert set(targets.tolist()) <= {0, 1}


def test_a_data_set_of_unknown_shape_is_an_error_that_names_the_option():
    with pytest.raises(DataError, match="--data"):
        make_synthetic_prepared_data(DataSpec(name="own"), 10)
