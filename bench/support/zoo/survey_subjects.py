"""Networks of the survey of `bench.zoo`: of each family of timm, all of torchvision, and some of transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from bench.support.zoo.networks import CLASSES, TOKENS, load_torchvision

SMALL_PIXELS, VIDEO_PIXELS, LENGTH, FRAMES = 64, 32, 12, 4
"""Sides of images and of videos, positions of a sequence, and images of a video."""

VIDEO = {"mc3_18": FRAMES, "r3d_18": FRAMES, "s3d": 4 * FRAMES, "swin3d_t": FRAMES}
"""Networks of torchvision that take videos, with the number of images."""

TORCHVISION_EVALUATED = (
    "convnext_tiny",
    "deeplabv3_mobilenet_v3_large",
    "densenet121",
    "efficientnet_b0",
    "fcn_resnet50",
    "googlenet",
    "lraspp_mobilenet_v3_large",
    "mc3_18",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "r3d_18",
    "regnet_y_400mf",
    "resnet18",
    "s3d",
    "shufflenet_v2_x0_5",
    "swin_t",
    "swin_v2_t",
    "swin3d_t",
    "vgg11_bn",
    "vit_b_32",
)
"""Networks of torchvision that are evaluated; the others are converted only."""

TRANSFORMERS = ("bert", "distilbert", "gpt2", "vit", "convnext", "llama", "t5")
"""Networks of transformers, from small configurations."""


@dataclass(frozen=True)
class Surveyed:
    """A network of the survey.

    Attributes:
        library: `timm`, `torchvision` or `transformers`.
        name: Name of the network in its library.
        family: Module of timm that defines it; else its name.
        is_evaluated: Whether it is evaluated after its conversion.
    """

    library: str
    name: str
    family: str
    is_evaluated: bool

    def build(self, pixels: int | None = None) -> nn.Module:
        """Build the network; for images of this side where it takes a size, else for those of its library."""
        return _BUILDERS[self.library](self.name, pixels)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Sides of images to try: small ones first, then those that the library says; None for other inputs."""
        if self.library == "transformers":
            return (32 if self.name in ("vit", "convnext") else None,)
        if self.library == "torchvision":
            return (VIDEO_PIXELS if self.name in VIDEO else SMALL_PIXELS, 128, 224)
        return tuple(dict.fromkeys((SMALL_PIXELS, 128, _timm_pixels(self.name))))

    def draw(self, examples: int, pixels: int | None) -> Tensor:
        """Draw random inputs."""
        if pixels is None:
            return torch.randint(1, TOKENS, (examples, LENGTH))
        frames = (VIDEO[self.name],) if self.name in VIDEO else ()
        return torch.randn(examples, 3, *frames, pixels, pixels)


def surveyed_networks(families: dict[str, str]) -> Iterator[Surveyed]:
    """Yield all networks of the survey.

    Args:
        families: Name of a network for each module of timm.
    """
    for family, name in families.items():
        yield Surveyed("timm", name, family, is_evaluated=True)
    for name in load_torchvision().models.list_models():
        yield Surveyed("torchvision", name, name, name in TORCHVISION_EVALUATED)
    for name in TRANSFORMERS:
        yield Surveyed("transformers", name, name, is_evaluated=True)


def _build_timm(name: str, pixels: int | None) -> nn.Module:
    load_torchvision()
    import timm

    if pixels is not None and pixels != _timm_pixels(name):
        try:
            return _as_module(timm.create_model(name, num_classes=CLASSES, img_size=pixels))
        except TypeError:
            pass  # this network takes images of any size
    return _as_module(timm.create_model(name, num_classes=CLASSES))


def _timm_pixels(name: str) -> int:
    load_torchvision()
    import timm

    config = timm.get_pretrained_cfg(name)
    return 224 if config is None else int(config.input_size[-1])


def _build_torchvision(name: str, _: int | None) -> nn.Module:
    models = load_torchvision().models
    options: dict[str, Any] = {}
    if "googlenet" in name or "inception" in name:
        options["init_weights"] = False  # torch's initialization is as good here, and faster
    try:
        return _as_module(models.get_model(name, weights=None, weights_backbone=None, **options))
    except TypeError:
        return _as_module(models.get_model(name, weights=None, **options))


def _build_transformers(name: str, _: int | None) -> nn.Module:
    load_torchvision()
    transformers: Any = import_module("transformers")
    text = {"vocab_size": TOKENS, "pad_token_id": 0, "num_labels": CLASSES}
    image = {"image_size": 32, "patch_size": 8, "num_labels": CLASSES}
    width = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    builders: dict[str, Callable[[], nn.Module]] = {
        "bert": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**text, **width)),
        "distilbert": lambda: transformers.DistilBertForSequenceClassification(
            transformers.DistilBertConfig(**text, dim=32, n_layers=2, n_heads=2, hidden_dim=64)
        ),
        "gpt2": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=TOKENS,
                n_embd=32,
                n_layer=2,
                n_head=2,
                n_positions=LENGTH,
                bos_token_id=1,
                eos_token_id=2,
            )
        ),
        "vit": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(**image, **width)),
        "convnext": lambda: transformers.ConvNextForImageClassification(
            transformers.ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, num_labels=CLASSES)
        ),
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=TOKENS, **width)),
        "t5": lambda: transformers.T5ForSequenceClassification(
            transformers.T5Config(vocab_size=TOKENS, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)
        ),
    }
    return builders[name]()


def _as_module(network: Any) -> nn.Module:
    assert isinstance(network, nn.Module)
    return network


_BUILDERS: dict[str, Callable[[str, int | None], nn.Module]] = {
    "timm": _build_timm,
    "torchvision": _build_torchvision,
    "transformers": _build_transformers,
}
