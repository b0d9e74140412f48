"""Networks of the survey of `bench.zoo`: of each family of timm, all of torchvision, and some of transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from bench.support.zoo.networks import CLASSES, LENGTH, TOKENS, load_torchvision

SMALL_PIXELS, VIDEO_PIXELS, FRAMES = 64, 32, 4
"""Sides of images and of videos, and images of a video."""

VIDEO = {"mc3_18": FRAMES, "r3d_18": FRAMES, "s3d": 4 * FRAMES, "swin3d_t": FRAMES}
"""Networks of torchvision that take videos, with the number of images."""

NETWORKS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
"""A network for each module of timm; those of torchvision that are evaluated, the others are converted only."""

_WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_IMAGE = {"image_size": 32, "patch_size": 8, "num_labels": CLASSES}
_TEXT = {"vocab_size": TOKENS, "pad_token_id": 0, "num_labels": CLASSES}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": LENGTH, "bos_token_id": 1, "eos_token_id": 2}
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForSequenceClassification", "BertConfig", {**_TEXT, **_WIDTH}),
    "distilbert": (
        *("DistilBertForSequenceClassification", "DistilBertConfig"),
        {**_TEXT, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": TOKENS, **_GPT2}),
    "vit": ("ViTForImageClassification", "ViTConfig", {**_IMAGE, **_WIDTH}),
    "convnext": (
        *("ConvNextForImageClassification", "ConvNextConfig"),
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "num_labels": CLASSES},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"vocab_size": TOKENS, **_WIDTH}),
    "t5": (
        *("T5ForSequenceClassification", "T5Config"),
        {"vocab_size": TOKENS, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2},
    ),
}
"""Networks of transformers: class, class of its configuration, and its values."""


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
        network = _BUILDERS[self.library](self.name, pixels)
        assert isinstance(network, nn.Module)
        return network

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


def surveyed_networks() -> Iterator[Surveyed]:
    """Yield all networks of the survey."""
    for family, name in NETWORKS["timm"].items():
        yield Surveyed("timm", name, family, is_evaluated=True)
    for name in load_torchvision().models.list_models():
        yield Surveyed("torchvision", name, name, name in NETWORKS["torchvision"])
    for name in TRANSFORMERS:
        yield Surveyed("transformers", name, name, is_evaluated=True)


def _load(library: str) -> Any:
    load_torchvision()
    return import_module(library)


def _timm_pixels(name: str) -> int:
    config = _load("timm").get_pretrained_cfg(name)
    return 224 if config is None else int(config.input_size[-1])


def _build_timm(name: str, pixels: int | None) -> Any:
    timm = _load("timm")
    if pixels is not None and pixels != _timm_pixels(name):
        try:
            return timm.create_model(name, num_classes=CLASSES, img_size=pixels)
        except TypeError:
            pass  # this network takes images of any size
    return timm.create_model(name, num_classes=CLASSES)


def _build_torchvision(name: str, _: int | None) -> Any:
    models = load_torchvision().models
    options: dict[str, Any] = {}
    if "googlenet" in name or "inception" in name:
        options["init_weights"] = False  # torch's initialization is as good here, and faster
    try:
        return models.get_model(name, weights=None, weights_backbone=None, **options)
    except TypeError:
        return models.get_model(name, weights=None, **options)


def _build_transformers(name: str, _: int | None) -> Any:
    transformers = _load("transformers")
    network, configuration, values = TRANSFORMERS[name]
    return getattr(transformers, network)(getattr(transformers, configuration)(**values))


_BUILDERS: dict[str, Callable[[str, int | None], Any]] = {
    "timm": _build_timm,
    "torchvision": _build_torchvision,
    "transformers": _build_transformers,
}
