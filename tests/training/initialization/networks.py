"""Networks with the same weights and another normalization method each, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.models import build_model
from bln_search.models.analytic import bind_analytic_layers
from bln_search.models.initialization import initialize_weights
from bln_search.norms import Normalization, make_norm
from bln_search.norms.no_normalization import drop_biases_of_no_normalization

METHODS = ("none", "bn", "brn", "mbn", "wn", "normprop", "ap2")
NETWORKS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "mlp": ((1, 4, 5), {"widths": [9, 8], "placement": "before", "activation": "relu"}),
    "convolutional": ((3, 8, 8), {}),
    "residual": ((3, 8, 8), {"widths": [4, 6, 8]}),
}
"""Shape of an example and options of the model."""


def build(method: str, name: str = "mlp", **options: Any) -> nn.Module:
    """A network of four classes in training mode."""
    shape, given = NETWORKS[name]
    norm = partial(make_norm, method)
    if name == "convolutional":
        network = _convolutional(norm)
        initialize_weights(network, torch.Generator().manual_seed(0))
        return bind_analytic_layers(network, torch.zeros(2, *shape)).double()
    model = "resnet8" if name == "residual" else "mlp"
    return build_model(model, shape, 4, norm, seed=0, options=given | options).double()


def _convolutional(norm: Callable[[int], nn.Module]) -> nn.Module:
    """Convolutions with and without groups, biases and padding; pooling, dense layers."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3, bias=False), norm(6), nn.ReLU(), nn.MaxPool2d(2)),
        *(
            nn.Conv2d(6, 8, 3, padding=1, groups=2),
            drop_biases_of_no_normalization(norm(8)),
            nn.Tanh(),
            nn.AvgPool2d(3),
        ),
        *(nn.Flatten(), nn.Linear(8, 7, bias=False), norm(7), nn.Sigmoid(), nn.Linear(7, 4)),
    )


def batch(name: str = "mlp", size: int = 12) -> Tensor:
    """A mini-batch of inputs with means and deviations of their own."""
    generator = torch.Generator().manual_seed(1)
    shape = NETWORKS[name][0]
    x = torch.randn(size, *shape, dtype=torch.float64, generator=generator)
    return 0.7 * x + 0.3 * torch.randn(shape, dtype=torch.float64, generator=generator)


def norms_of(network: nn.Module) -> list[Normalization]:
    """The normalization layers in the order of construction."""
    return [module for module in network.modules() if isinstance(module, Normalization)]


def linear_layers_of(network: nn.Module) -> list[nn.Linear | nn.Conv2d]:
    """The linear and convolution layers in the order of construction."""
    return [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
