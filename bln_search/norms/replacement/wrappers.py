"""Modules that keep what a replaced layer computes besides normalization."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_ATTRIBUTES = frozenset(
    {
        *("weight", "bias", "eps", "affine", "elementwise_affine", "num_features", "num_channels", "num_groups"),
        *("running_mean", "running_var", "num_batches_tracked", "momentum", "track_running_stats"),
    }
)
"""Attributes of torch's layers that networks read."""

_SETTABLE = frozenset({"eps", "momentum", "track_running_stats"})
"""Those that networks set."""


class WrappedNorm(nn.Module):
    """A module around one normalization layer. Attributes of torch's layers, such as γ, β and ε, are those of both."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; those of torch's layers are those of the normalization layer."""
        return getattr(self.norm, name) if name in _ATTRIBUTES else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the numbers of torch's layers are set in the normalization layer."""
        if name in _SETTABLE:
            setattr(self.norm, name, value)
        else:
            super().__setattr__(name, value)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load; entries of the replaced layer are those of the normalization layer."""
        for key in [key for key in state_dict if key.startswith(prefix) and "." not in key.removeprefix(prefix)]:
            name = key.removeprefix(prefix)
            if name not in self._parameters and name not in self._buffers:
                state_dict[f"{prefix}norm.{name}"] = self._convert_entry(name, state_dict.pop(key))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _convert_entry(self, name: str, value: Any) -> Any:  # noqa: ARG002 - for subclasses
        """Return an entry of the replaced layer's state dict as one of the normalization layer's."""
        return value


class NormWithActivation(WrappedNorm):
    """Normalization, then dropout, then the activation function.

    Args:
        norm: The normalization layer, or a module around it.
        drop: Dropout of the replaced layer; None for none.
        act: Activation function of the replaced layer; None for none.

    Input and output: as of `norm`.
    """

    def __init__(self, norm: nn.Module, drop: nn.Module | None = None, act: nn.Module | None = None) -> None:
        super().__init__(norm)
        self.drop = nn.Identity() if drop is None else drop
        self.act = nn.Identity() if act is None else act

    def forward(self, x: Tensor) -> Tensor:
        """Return act(drop(norm(x)))."""
        output: Tensor = self.act(self.drop(self.norm(x)))
        return output


class NodeNorm(WrappedNorm):
    """Normalization of each node of a mini-batch of graphs, called like the layers of PyTorch Geometric.

    Args:
        norm: A normalization layer over the channels.

    Input and output: (nodes, channels).
    """

    def forward(
        self,
        x: Tensor,
        batch: Tensor | None = None,  # noqa: ARG002 - nodes are normalized one by one
        batch_size: int | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Return the normalized nodes; the graphs that they belong to do not matter."""
        output: Tensor = self.norm(x)
        return output


class MergedAxesNorm(WrappedNorm):
    """Layer normalization over several last axes, merged to one feature axis.

    Args:
        norm: A normalization layer over as many features as the axes have entries.
        normalized_shape: Lengths of the axes.

    Input and output: (N, ..., *normalized_shape).
    """

    def __init__(self, norm: nn.Module, normalized_shape: tuple[int, ...]) -> None:
        super().__init__(norm)
        self.normalized_shape = normalized_shape

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized input, of its shape."""
        return torch.unflatten(self.norm(x.flatten(-len(self.normalized_shape))), -1, self.normalized_shape)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; γ and β have the shape of the axes."""
        value = super().__getattr__(name)
        return value.unflatten(0, self.normalized_shape) if name in ("weight", "bias") else value

    def _convert_entry(self, name: str, value: Any) -> Any:
        """Return an entry of the replaced layer's state dict with merged axes."""
        return value.flatten() if name in ("weight", "bias") else value
