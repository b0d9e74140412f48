"""Population values, sizes of mini-batches, loaders and data of many kinds, mostly in one small network."""

from __future__ import annotations

import torch
from torch import nn

from tests.evaluation.wirings.building import (
    CLASSES,
    FLAT,
    Wiring,
    linear,
    mlp,
    module,
    normal,
    stack,
)
from tests.evaluation.wirings.images import residual_images
from tests.evaluation.wirings.sequences import attention

SETTINGS = {
    # population values
    "total": Wiring(lambda norm: mlp(norm, "bln", "bln"), correction="total"),
    "total on images": Wiring(residual_images, inputs="images", correction="total"),
    "by slot": Wiring(lambda norm: mlp(norm, "bln", "bln"), per_slot=True),
    "by slot, total": Wiring(lambda norm: mlp(norm, "ln"), per_slot=True, correction="total"),
    "by slot on images": Wiring(residual_images, inputs="images", per_slot=True),
    "by slot on sequences": Wiring(attention, inputs="sequences", per_slot=True),
    # sizes and loaders
    "mini-batches of one": Wiring(lambda norm: mlp(norm, "bln", "bn"), train=(1,) * 6, validation=(1,) * 4),
    "mini-batches of one, total": Wiring(
        lambda norm: mlp(norm, "bln"), train=(1,) * 6, validation=(1,) * 4, correction="total"
    ),
    "mini-batches of one image": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), normal(4, "bn"), FLAT, linear(64, CLASSES)),
        inputs="images",
        train=(1,) * 6,
        validation=(1,) * 4,
    ),
    "mini-batches of two": Wiring(lambda norm: mlp(norm, "bln", "bln"), train=(2,) * 6, validation=(2, 2, 1)),
    "other sizes at inference": Wiring(lambda norm: mlp(norm, "bln", "bln"), sizes=(1, 4, 7, 13)),
    "other sizes at inference, by slot": Wiring(lambda norm: mlp(norm, "bln"), sizes=(2, 5, 7), per_slot=True),
    "trained in fives, judged by one": Wiring(lambda norm: mlp(norm, "bln", "bln"), validation=(1,) * 5),
    "incomplete training mini-batch": Wiring(lambda norm: mlp(norm, "bln", "bln"), train=(5, 5, 5, 2)),
    "one training mini-batch": Wiring(lambda norm: mlp(norm, "bln", "bln"), train=(5,)),
    "one validation example": Wiring(lambda norm: mlp(norm, "bln", "bln"), validation=(1,)),
    "generators": Wiring(lambda norm: mlp(norm, "bln", "bln"), loader=lambda batches: (batch for batch in batches)),
    "constant inputs": Wiring(lambda norm: mlp(norm, "bln", "bln"), prepare=torch.ones_like),
    "inputs far from zero": Wiring(stack(normal(7), linear(7, CLASSES)), prepare=lambda x: 3 * x + 20),
    "images in memory channels last": Wiring(
        residual_images, inputs="images", prepare=lambda x: x.contiguous(memory_format=torch.channels_last)
    ),
}
