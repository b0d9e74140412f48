"""Networks of images."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.evaluation.wirings.building import (
    CLASSES,
    FLAT,
    MEAN,
    Wired,
    Wiring,
    function,
    linear,
    module,
    normal,
    stack,
)
from tests.evaluation.wirings.sequences import innermost


def squeeze_excite(norm):
    return Wired(
        lambda net, x: _squeezed(net, net.norm(net.stem(x))),
        stem=nn.Conv2d(3, 4, 3),
        norm=norm(4),
        squeeze=nn.Conv2d(4, 2, 1),
        excite=nn.Conv2d(2, 4, 1),
        head=nn.Linear(4, CLASSES),
    )


def _squeezed(net, y):
    gate = torch.sigmoid(net.excite(torch.relu(net.squeeze(y.mean((2, 3), keepdim=True)))))
    return net.head((y * gate).mean((2, 3)))


def residual_images(norm):
    """A basic block with a projection."""
    return Wired(
        lambda net, x: net.head(torch.relu(net.n(net.b(torch.relu(net.k(net.a(x))))) + net.short(x)).mean((2, 3))),
        a=nn.Conv2d(3, 4, 3, padding=1, stride=2, bias=False),
        k=norm(4),
        b=nn.Conv2d(4, 4, 3, padding=1, bias=False),
        n=norm(4),
        short=nn.Conv2d(3, 4, 1, stride=2),
        head=nn.Linear(4, CLASSES),
    )


def dense_images(norm):
    """Concatenates the input and the output of a block, twice."""
    return Wired(
        lambda net, x: net.head(_with_block_output(net, _with_block_output(net, x, "first"), "second").mean((2, 3))),
        first=nn.Sequential(norm(3), nn.ReLU(), nn.Conv2d(3, 2, 3, padding=1)),
        second=nn.Sequential(norm(5), nn.ReLU(), nn.Conv2d(5, 2, 3, padding=1)),
        head=nn.Linear(7, CLASSES),
    )


def _with_block_output(net, x, name):
    return torch.cat([x, getattr(net, name)(x)], 1)


def u_shaped(norm):
    """Downsampling, upsampling, and a skip connection."""
    return Wired(
        lambda net, x: net.head(torch.cat([net.up(torch.relu(net.norm(net.down(x)))), x], 1).amax((2, 3))),
        down=nn.Conv2d(3, 4, 2, stride=2),
        norm=norm(4),
        up=nn.ConvTranspose2d(4, 3, 2, stride=2),
        head=nn.Linear(6, CLASSES),
    )


def channels_last(norm):
    return Wired(
        lambda net, x: net.head(net.norm(net.mix(x.permute(0, 2, 3, 1))).mean((1, 2))),
        mix=nn.Linear(3, 5),
        norm=norm(5, feature_axis=-1),
        head=nn.Linear(5, CLASSES),
    )


IMAGES = {
    "pixels": Wiring(stack(normal(3), FLAT, linear(108, CLASSES)), inputs="images"),
    "convolution, norm, pool": Wiring(
        stack(
            module(nn.Conv2d, 3, 4, 3, padding=1),
            normal(4),
            module(nn.ReLU),
            module(nn.MaxPool2d, 2),
            module(nn.Conv2d, 4, 4, 3),
            normal(4),
            FLAT,
            linear(4, CLASSES),
        ),
        inputs="images",
    ),
    "norm behind maximum pooling": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), module(nn.MaxPool2d, 2), normal(4), FLAT, linear(16, CLASSES)),
        inputs="images",
    ),
    "norm behind average pooling": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), module(nn.AvgPool2d, 2), normal(4), FLAT, linear(16, CLASSES)),
        inputs="images",
    ),
    "norm of maps of one pixel": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), module(nn.AdaptiveAvgPool2d, 1), normal(4), FLAT, linear(4, CLASSES)),
        inputs="images",
    ),
    "norm behind flattening": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), FLAT, normal(64), linear(64, CLASSES)), inputs="images"
    ),
    "bn on images": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), normal(4, "bn"), module(nn.ReLU), FLAT, linear(64, CLASSES)), inputs="images"
    ),
    "depthwise and pointwise": Wiring(
        stack(
            normal(3),
            module(nn.Conv2d, 3, 6, 3, groups=3),
            normal(6),
            module(nn.Conv2d, 6, 2, 1),
            FLAT,
            linear(32, CLASSES),
        ),
        inputs="images",
    ),
    "transposed convolution": Wiring(
        stack(normal(3), module(nn.ConvTranspose2d, 3, 2, 2, stride=2), normal(2), FLAT, linear(288, CLASSES)),
        inputs="images",
    ),
    "upsampled": Wiring(
        stack(
            normal(3),
            module(nn.Upsample, scale_factor=2, mode="bilinear"),
            module(nn.AvgPool2d, 3),
            FLAT,
            linear(48, CLASSES),
        ),
        inputs="images",
    ),
    "pixels shuffled": Wiring(
        stack(module(nn.Conv2d, 3, 4, 1), normal(4), module(nn.PixelShuffle, 2), FLAT, linear(144, CLASSES)),
        inputs="images",
    ),
    "channels shuffled": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), normal(4), module(nn.ChannelShuffle, 2), FLAT, linear(64, CLASSES)),
        inputs="images",
    ),
    "reflected border": Wiring(
        stack(normal(3), module(nn.ReflectionPad2d, 1), module(nn.Conv2d, 3, 2, 3), FLAT, linear(72, CLASSES)),
        inputs="images",
    ),
    "patches": Wiring(
        stack(
            normal(3),
            function(lambda x: F.unfold(x, 2, stride=2).transpose(1, 2)),
            normal(12),
            MEAN,
            linear(12, CLASSES),
        ),
        inputs="images",
    ),
    "dropped channels": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), normal(4), module(nn.Dropout2d), FLAT, linear(64, CLASSES)), inputs="images"
    ),
    "squeeze and excite": Wiring(squeeze_excite, inputs="images"),
    "residual block": Wiring(residual_images, inputs="images"),
    "dense block": Wiring(dense_images, inputs="images"),
    "down and up": Wiring(u_shaped, inputs="images"),
    "channels last": Wiring(channels_last, inputs="images"),
    "examples innermost in memory": Wiring(
        stack(function(innermost), normal(3), FLAT, linear(108, CLASSES)), inputs="images"
    ),
}
