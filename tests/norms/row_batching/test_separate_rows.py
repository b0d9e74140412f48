"""Normalization of separate rows by the compiled kernel, compared with torch in double precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import BLN, BN
from bln_search.norms.network.layers import compute_populations_of_layers, list_possible_configurations
from bln_search.norms.row_batching import enumeration, separate_rows
from bln_search.norms.row_batching.compiled.availability import use_torch_instead_of_kernels
from bln_search.norms.row_batching.enumeration import normalize_all_rows
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)

pytest.importorskip("numba", reason="the extra `fast` is not installed")

pytestmark = pytest.mark.xdist_group("kernels")


@pytest.fixture(autouse=True)
def for_any_size(monkeypatch):
    monkeypatch.setattr(separate_rows, "FEWEST_VALUES", 1)


@pytest.fixture
def results(monkeypatch):
    """Results of the kernel, None where it is not applicable."""
    recorded = []
    original = enumeration.try_normalize_separate_rows

    def record_result(*args):
        recorded.append(original(*args))
        return recorded[-1]

    monkeypatch.setattr(enumeration, "try_normalize_separate_rows", record_result)
    return recorded


def make_case(shape, groups=2, size=3, method=BLN, dtype=torch.float32, *, per_slot=False, seed=0, **options):
    """Return a layer and inputs of all its rows."""
    generator = torch.Generator().manual_seed(seed)
    network = nn.Sequential(method(shape[0], **options)).to(dtype).eval()
    layer = network[0]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(dtype))
    sample = (1.5 * torch.randn(4 * size, *shape, generator=generator) + 0.3).to(dtype)
    gathered = {str(PopulationEstimate.FROZEN): collect_moments_with_frozen_weights(network, sample.split(size))}
    populations = compute_populations_of_layers({"0": layer}, gathered, Correction.BESSEL, per_slot=per_slot)
    rows = tuple(
        InferenceRow(configuration, PopulationEstimate.FROZEN if configuration.uses_population else None)
        for configuration in list_possible_configurations({"0": layer})
    )
    layout = BatchLayout(RowBatchingPlan(rows, populations), groups, size)
    x = torch.randn(len(rows) * groups * size, *shape, generator=generator).to(dtype)
    return layer, tag_with_rows(x, layout, len(rows))


def normalize(layer, x):
    with torch.no_grad():
        return remove_row_tag(normalize_all_rows(layer, x))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    channels=st.integers(1, 5),
    area=st.tuples(st.integers(2, 8), st.integers(2, 8)).filter(lambda area: area[0] * area[1] >= 12),
    groups=st.integers(1, 3),
    size=st.integers(2, 5),
    semantics=st.sampled_from(["paper", "reference"]),
    seed=st.integers(0, 9),
)
def test_kernel_equals_torch_for_any_shape(channels, area, groups, size, semantics, seed):
    layer, x = make_case((channels, *area), groups, size, semantics=semantics, seed=seed)
    with use_torch_instead_of_kernels():
        expected = normalize(layer, x)
    found = normalize(layer, x)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (found - expected).abs().mean() < 1e-6


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("threads", [1, 2])
def test_kernel_is_used_with_any_number_of_threads(results, semantics, threads):
    layer, x = make_case((4, 5, 5), semantics=semantics)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = normalize(layer, x)
    torch.set_num_threads(before)
    assert results[-1] is not None
    with use_torch_instead_of_kernels():
        assert torch.allclose(found, normalize(layer, x), rtol=1e-5, atol=1e-5)


def test_nan_stays_in_the_mini_batch_of_its_row():
    layer, x = make_case((4, 5, 5))
    data = remove_row_tag(x)
    data[7, 0, 0, 0] = torch.nan
    found = normalize(layer, x).isnan()
    with use_torch_instead_of_kernels():
        assert torch.equal(found, normalize(layer, x).isnan())
    assert found.any()


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": torch.float64},
        {"method": BN},
        {"shape": (4, 2, 5)},
        {"shape": (4, 4)},
        {"per_slot": True},
    ],
    ids=["double", "bn", "small images", "sequences", "population by slot"],
)
def test_other_inputs_are_computed_by_torch(results, options):
    layer, x = make_case(**{"shape": (4, 5, 5), "semantics": "reference", **options})
    found = normalize(layer, x)
    assert results[-1] is None
    with use_torch_instead_of_kernels():
        assert torch.equal(found, normalize(layer, x))


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("values_of_piece", [1, 500])
def test_pieces_of_rows_equal_all_rows_at_once(monkeypatch, semantics, values_of_piece):
    layer, x = make_case((4, 3, 3), dtype=torch.float64, semantics=semantics)
    expected = normalize(layer, x)
    monkeypatch.setattr(enumeration, "_PIECE", values_of_piece)
    assert torch.allclose(normalize(layer, x), expected, rtol=1e-12, atol=1e-12)
