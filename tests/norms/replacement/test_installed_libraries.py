"""Layers and networks of timm, torchvision and transformers keep their outputs, where these libraries are installed."""

from __future__ import annotations

import copy
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from bench.support.zoo.networks import load_torchvision
from bln_search import convert, evaluate_configurations
from bln_search.core.enums import Split
from bln_search.norms.replacement.libraries import BUILT_IN

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]

IMAGES, TOKENS = (4, 6, 3, 3), (4, 5, 6)
OPTIONS = {
    "ConvNextLayerNorm": {"data_format": "channels_first"},
    "ConvNextV2LayerNorm": {"data_format": "channels_last"},
}
LAYERS = [path for path in BUILT_IN if not path.startswith("torch.") and "Sync" not in path]


def load(module):
    """The module; the test is skipped where its library is not installed."""
    library = module.partition(".")[0]
    if find_spec(library) is None or find_spec("torchvision") is None:
        pytest.skip(f"{library} is not installed")
    load_torchvision()
    return import_module(module)


@pytest.mark.parametrize("path", LAYERS)
def test_layer_of_a_library_keeps_its_outputs(path):
    module, _, name = path.rpartition(".")
    torch.manual_seed(0)
    layer = getattr(load(module), name)(6, **OPTIONS.get(name, {})).double()
    for value in [*layer.parameters(), *layer.buffers()]:
        if value.is_floating_point():
            value.data.uniform_(0.5, 2.0)
    has_positions_last = "2d" in name or OPTIONS.get(name, {}).get("data_format") == "channels_first"
    x = torch.randn(IMAGES if has_positions_last or "torchvision" in path else TOKENS, dtype=torch.float64)
    network = nn.Sequential(layer).eval()
    expected = network(x)
    converted = convert(copy.deepcopy(network), method="same", strict=True)
    tolerance = 1e-6 if "Fp32" in name else 1e-12  # which computes in single precision
    torch.testing.assert_close(converted(x), expected, rtol=tolerance, atol=tolerance)
    for converted_to in ("bln", "bn"):
        convert(copy.deepcopy(network), method=converted_to, batch_size=4)


@pytest.mark.parametrize("name", ["mobilenetv3_small_050", "convnext_atto", "ghostnet_050", "vit_tiny_patch16_224"])
def test_network_of_timm_is_evaluated_exactly(name):
    size = {"img_size": 32} if "vit" in name else {}
    torch.manual_seed(0)
    network = load("timm").create_model(name, num_classes=3, **size).double()
    data = [(torch.randn(6, 3, 32, 32, dtype=torch.float64), torch.arange(6) % 3) for _ in range(2)]
    with torch.no_grad():
        network.train()(data[0][0])
        expected = network.eval()(data[1][0])
        converted = convert(network, method="same", strict=True)
        torch.testing.assert_close(converted(data[1][0]), expected, rtol=1e-9, atol=1e-9)
    fused, plain = (evaluate_configurations(converted, data, data, one_pass=one_pass) for one_pass in (True, False))
    losses = [{str(row): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked} for ranked in (fused, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-8)
