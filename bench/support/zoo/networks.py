"""Networks of third-party libraries for `bench.zoo`: random weights, small inputs, fixed seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

CLASSES = 10
"""Classes of every network."""

LENGTH, FEATURES, TOKENS = 12, 8, 50
"""Positions of a sequence, measurements at each, and token ids; 0 is padding."""


class RecurrentNetwork(nn.Module):
    """A recurrent layer of torch with LayerNorm over its features, and optionally BatchNorm over its last position."""

    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM], *, batch_norm: bool) -> None:
        super().__init__()
        self.before = nn.LayerNorm(FEATURES)
        self.recurrent = kind(FEATURES, 32, batch_first=True)
        self.after = nn.LayerNorm(32)
        self.last = nn.BatchNorm1d(32) if batch_norm else nn.Identity()
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of sequences (n, length, features)."""
        states, _ = self.recurrent(self.before(x))
        logits: Tensor = self.head(self.last(self.after(states)[:, -1]))
        return logits


class PaddedTransformer(nn.Module):
    """torch's TransformerEncoder over token ids with padding; its outputs are averaged over all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of token ids (n, length)."""
        states = self.encoder(self.embedding(tokens), src_key_padding_mask=tokens == 0)
        logits: Tensor = self.head(states.mean(1))
        return logits


Examples = tuple[Tensor, Tensor]
"""Inputs (n, ...) and targets (n,), or (n, height, width) if each pixel has a class."""


def images(examples: int, pixels: int) -> Examples:
    """Images with a class each."""
    return torch.randn(examples, 3, pixels, pixels), torch.randint(0, CLASSES, (examples,))


def labeled_pixels(examples: int, pixels: int) -> Examples:
    """Images with a class for each pixel."""
    return torch.randn(examples, 3, pixels, pixels), torch.randint(0, CLASSES, (examples, pixels, pixels))


def sequences(examples: int, _: int) -> Examples:
    """Sequences of measurements with a class each."""
    return torch.randn(examples, LENGTH, FEATURES), torch.randint(0, CLASSES, (examples,))


def token_ids(examples: int, _: int) -> Examples:
    """Token ids with a class each; every second sequence is padded."""
    tokens = torch.randint(1, TOKENS, (examples, LENGTH))
    tokens[::2, LENGTH * 3 // 4 :] = 0
    return tokens, torch.randint(0, CLASSES, (examples,))


@dataclass(frozen=True)
class Subject:
    """A network to evaluate.

    Attributes:
        library: The library that defines the network.
        build: Builds the network for images of this side in pixels.
        draw: Draws this number of random examples of this side in pixels.
    """

    library: str
    build: Callable[[int], nn.Module]
    draw: Callable[[int, int], Examples] = images

    def make(self, pixels: int) -> nn.Module:
        """Build it with a last layer of usual size: libraries start theirs at or near zero, which hides differences."""
        network = self.build(pixels)
        heads = [module for module in network.modules() if isinstance(module, nn.Linear)]
        if heads:
            nn.init.normal_(heads[-1].weight, std=heads[-1].in_features ** -0.5)
        return network


def load_torchvision() -> Any:
    """The package `torchvision`, with or without its compiled operations.

    Its wheel of the Python index is compiled for torch with CUDA. Beside torch for CPUs the compiled operations do not
    load, and the import fails at two of them; no network here calls either, so it is enough that they are declared.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise
        for operation in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operation}", "(Tensor dets, Tensor scores, float iou) -> Tensor")
        import torchvision
    return torchvision


def _vision(name: str) -> Subject:
    """A network of torchvision by its name."""
    return Subject("torchvision", lambda _: load_torchvision().models.get_model(name, num_classes=CLASSES))


def _small_vision(class_name: str, make_options: Callable[[int], dict[str, Any]]) -> Subject:
    """A class of torchvision with the options for a side of the images."""

    def build(pixels: int) -> nn.Module:
        make: Callable[..., nn.Module] = getattr(load_torchvision().models, class_name)
        return make(**make_options(pixels), num_classes=CLASSES)

    return Subject("torchvision", build)


def _vgg(_: int) -> nn.Module:
    """VGG-11 with the small head of its variants for CIFAR: one linear layer in place of 120 million weights."""
    network: nn.Module = load_torchvision().models.vgg11_bn()
    network.avgpool = nn.AdaptiveAvgPool2d(1)
    network.classifier = nn.Linear(512, CLASSES)
    return network


def _unet(_: int) -> nn.Module:
    load_torchvision()
    from segmentation_models_pytorch import Unet

    network: nn.Module = Unet("resnet18", encoder_weights=None, classes=CLASSES)
    return network


_SWIN = {"patch_size": [2, 2], "embed_dim": 32, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
_VIT = {"patch_size": 8, "num_layers": 4, "num_heads": 2, "hidden_dim": 32, "mlp_dim": 64}
_MAXVIT = {
    "stem_channels": 16,
    "partition_size": 4,
    "head_dim": 8,
    "stochastic_depth_prob": 0.1,
    "block_channels": [16, 32],
    "block_layers": [1, 1],
}
NETWORKS: Mapping[str, Subject] = {
    "ResNet-18": _vision("resnet18"),
    "VGG-11 with BN": Subject("torchvision", _vgg),
    "DenseNet-121": _vision("densenet121"),
    "EfficientNet-B0": _vision("efficientnet_b0"),
    "RegNetY-400MF": _vision("regnet_y_400mf"),
    "ShuffleNetV2 ×0.5": _vision("shufflenet_v2_x0_5"),
    "Swin, small": _small_vision("SwinTransformer", lambda _: _SWIN),
    "ViT, small": _small_vision("VisionTransformer", lambda pixels: {"image_size": pixels, **_VIT}),
    "MaxViT, small": _small_vision("MaxVit", lambda pixels: {"input_size": (pixels, pixels), **_MAXVIT}),
    "U-Net on ResNet-18, pixels": Subject("segmentation-models-pytorch", _unet, labeled_pixels),
    "GRU with LN and BN": Subject("torch", lambda _: RecurrentNetwork(nn.GRU, batch_norm=True), sequences),
    "LSTM with LN": Subject("torch", lambda _: RecurrentNetwork(nn.LSTM, batch_norm=False), sequences),
    "TransformerEncoder, padding": Subject("torch", lambda _: PaddedTransformer(), token_ids),
}
