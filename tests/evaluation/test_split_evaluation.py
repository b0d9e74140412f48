"""Rows without a value on a split, and the reasons."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.undefined_reasons import BESSEL_UNDEFINED, mini_batch_exceeds_slots_reason
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.split_evaluation import find_undefined_reason
from bln_search.norms import BLN, BN, LN
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow


def populations_of(network, batch_size, *, per_slot=False):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(4 * batch_size, 3, generator=generator)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, inputs.split(batch_size))}
    return compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=per_slot)


def row(code):
    return InferenceRow(InferenceConfiguration(code), PopulationEstimate.FROZEN if "T" in code else None)


@pytest.mark.parametrize("layers", [(BN, LN), (LN, BN)])
@pytest.mark.parametrize(("code", "is_defined"), [("TTFF", False), ("TFFF", True), ("FFTF", True), ("FFFF", True)])
def test_every_layer_is_examined_for_an_undefined_deviation(layers, code, is_defined):
    """The configuration of LN alone reads no population value, so only BN decides."""
    network = nn.Sequential(*(layer(3) for layer in layers)).eval()
    assert find_undefined_reason(row(code), populations_of(network, 1), 1) == (
        None if is_defined else f"Std_B: {BESSEL_UNDEFINED}"
    )


@pytest.mark.parametrize("code", ["FFTF", "FFFT"])
def test_values_of_slots_limit_the_mini_batch_size(code):
    populations = populations_of(nn.Sequential(BLN(3)).eval(), 4, per_slot=True)
    assert find_undefined_reason(row(code), populations, 4) is None
    assert find_undefined_reason(row(code), populations, 5) == mini_batch_exceeds_slots_reason(4, 5)
    assert find_undefined_reason(row("TTFF"), populations, 5) is None


def test_values_common_to_all_slots_serve_every_size():
    populations = populations_of(nn.Sequential(BLN(3)).eval(), 4)
    assert find_undefined_reason(row("TTTT"), populations, 5) is None
