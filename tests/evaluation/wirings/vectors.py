"""Networks of vectors: positions of the norm, methods, operations after it, branches."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.evaluation.wirings.building import (
    CLASSES,
    FLAT,
    Wired,
    Wiring,
    behind,
    branches,
    function,
    linear,
    mlp,
    module,
    normal,
    residual,
    stack,
)


def training_only(norm):
    """A second norm that only training calls."""
    return Wired(
        lambda net, x: net.head(net.side(net.norm(net.a(x))) if net.training else net.norm(net.a(x))),
        a=nn.Linear(7, 6),
        norm=norm(6),
        side=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def used_twice(norm):
    return Wired(
        lambda net, x: net.head(net.norm(torch.tanh(net.b(net.norm(net.a(x)))))),
        a=nn.Linear(7, 6),
        b=nn.Linear(6, 6),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def block_twice(norm):
    return Wired(
        lambda net, x: net.head(net.block(net.block(net.a(x)))),
        a=nn.Linear(7, 6),
        block=nn.Sequential(nn.Linear(6, 6), norm(6), nn.Tanh()),
        head=nn.Linear(6, CLASSES),
    )


def size_read_behind(norm):
    return Wired(
        lambda net, x: net.head(_reshaped_by_own_size(net.norm(net.first(x)))),
        first=nn.Linear(7, 6),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def _reshaped_by_own_size(y):
    return y.reshape(y.shape[0], 2, 3).transpose(1, 2).reshape(y.shape[0], 6)


def view_changed_in_place(norm):
    return Wired(_view_changed, first=nn.Linear(7, 6), norm=norm(6), head=nn.Linear(6, CLASSES))


def _view_changed(net, x):
    y = net.norm(net.first(x))
    y[:, :3].mul_(2.0)
    return net.head(y)


MIXES = "does not treat examples independently"
BRANCHES = "branch on the values of tensors"
IN_PLACE = "in place|in-place"

VECTORS = {
    # where the norm stands
    "norm first": Wiring(stack(normal(7), linear(7, CLASSES))),
    "norm before the head": Wiring(lambda norm: mlp(norm, "bln", activation=nn.Identity)),
    "norm last": Wiring(stack(linear(7, CLASSES), normal(CLASSES))),
    "norm alone": Wiring(stack(normal(7), function(lambda x: x[:, :CLASSES]))),
    "two norms": Wiring(lambda norm: mlp(norm, "bln", "bln")),
    "three norms": Wiring(lambda norm: mlp(norm, "bln", "bln", "bln")),
    "four norms with relu": Wiring(lambda norm: mlp(norm, *["bln"] * 4, activation=nn.ReLU)),
    "norm right behind norm": Wiring(stack(linear(7, 6), normal(6), normal(6), linear(6, CLASSES))),
    "norm in a nested module": Wiring(
        stack(stack(stack(linear(7, 6), normal(6)), module(nn.SiLU)), linear(6, CLASSES))
    ),
    "one feature": Wiring(stack(linear(7, 1), normal(1), linear(1, CLASSES))),
    # methods
    "bn": Wiring(lambda norm: mlp(norm, "bn", "bn")),
    "ln": Wiring(lambda norm: mlp(norm, "ln", "ln")),
    "bn and ln": Wiring(lambda norm: mlp(norm, "bn", "ln")),
    "bn, bln and ln": Wiring(lambda norm: mlp(norm, "bn", "bln", "ln")),
    "mbn after training": Wiring(lambda norm: mlp(norm, "mbn", "mbn"), steps=7),
    "mbn, total": Wiring(lambda norm: mlp(norm, "mbn"), steps=3, correction="total"),
    "mbn on images": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), normal(4, "mbn"), FLAT, linear(64, CLASSES)), inputs="images", steps=3
    ),
    "brn after training": Wiring(lambda norm: mlp(norm, "brn", "brn"), steps=6),
    "brn and bn": Wiring(lambda norm: mlp(norm, "brn", "bn")),
    "torch BatchNorm beside": Wiring(stack(linear(7, 6), module(nn.BatchNorm1d, 6), normal(6), linear(6, CLASSES))),
    "torch LayerNorm behind": Wiring(stack(linear(7, 6), normal(6), module(nn.LayerNorm, 6), linear(6, CLASSES))),
    "group norm behind": Wiring(
        stack(module(nn.Conv2d, 3, 4, 3), normal(4), module(nn.GroupNorm, 2, 4), FLAT, linear(64, CLASSES)),
        inputs="images",
    ),
    # activations and functions behind a norm
    "relu in place behind": Wiring(stack(linear(7, 6), normal(6), module(nn.ReLU, inplace=True), linear(6, CLASSES))),
    "relu in place before": Wiring(stack(linear(7, 6), module(nn.ReLU, inplace=True), normal(6), linear(6, CLASSES))),
    "prelu": Wiring(stack(linear(7, 6), normal(6), module(nn.PReLU, 6), linear(6, CLASSES))),
    "glu": Wiring(stack(linear(7, 6), normal(6), module(nn.GLU), linear(3, CLASSES))),
    "softmax": Wiring(stack(linear(7, 6), normal(6), module(nn.Softmax, 1), linear(6, CLASSES))),
    "log-softmax last": Wiring(stack(linear(7, CLASSES), normal(CLASSES), module(nn.LogSoftmax, 1))),
    "dropout behind": Wiring(stack(linear(7, 6), normal(6), module(nn.Dropout), linear(6, CLASSES))),
    "dropout before": Wiring(stack(linear(7, 6), module(nn.AlphaDropout), normal(6), linear(6, CLASSES))),
    "unit length": Wiring(behind(lambda net, y: F.normalize(y, dim=1))),
    "sorted features": Wiring(behind(lambda net, y: y.sort(1).values)),
    "top features": Wiring(
        behind(lambda net, y: torch.cat([y.topk(3, 1).values, y.topk(3, 1, largest=False).values], 1))
    ),
    "running sum": Wiring(behind(lambda net, y: y.cumsum(1))),
    "centred features": Wiring(behind(lambda net, y: y - y.mean(1, keepdim=True))),
    "chunks swapped": Wiring(behind(lambda net, y: torch.cat(y.chunk(2, 1)[::-1], 1))),
    "chosen by sign": Wiring(behind(lambda net, y: torch.where(y > 0, y, 0.1 * y))),
    "outer product": Wiring(behind(lambda net, y: (y.unsqueeze(1) * y.unsqueeze(2)).sum(1))),
    "clipped": Wiring(behind(lambda net, y: y.clamp(-0.5, 0.5))),
    # branches
    "residual": Wiring(stack(linear(7, 6), residual(linear(6, 6)), linear(6, CLASSES))),
    "two residuals": Wiring(stack(linear(7, 6), residual(linear(6, 6)), residual(module(nn.Tanh)), linear(6, CLASSES))),
    "residual around a norm of the input": Wiring(
        lambda norm: Wired(lambda net, x: net.head(x + net.norm(x)), norm=norm(7), head=nn.Linear(7, CLASSES))
    ),
    "concatenated with its input": Wiring(
        lambda norm: Wired(
            lambda net, x: net.head(torch.cat([x, net.norm(x)], 1)), norm=norm(7), head=nn.Linear(14, CLASSES)
        )
    ),
    "branches summed": Wiring(branches(torch.add)),
    "branches multiplied": Wiring(branches(torch.mul)),
    "branches concatenated": Wiring(branches(lambda a, b: torch.cat([a, b], 1), 12)),
    "branches gated": Wiring(branches(lambda a, b: torch.sigmoid(a) * b)),
    "branches stacked": Wiring(branches(lambda a, b: torch.stack([a, b], 2).amax(2))),
    "branches in a bilinear form": Wiring(
        lambda norm: Wired(
            lambda net, x: net.form(net.n(net.a(x)), net.k(x)),
            a=nn.Linear(7, 6),
            n=norm(6),
            k=norm(7),
            form=nn.Bilinear(6, 7, CLASSES),
        )
    ),
    "norm that evaluation passes by": Wiring(training_only, unreached=True),
    "norm used twice": Wiring(used_twice),
    "block used twice": Wiring(block_twice),
    # parameters in front of the first norm
    "scale before": Wiring(
        lambda norm: Wired(
            lambda net, x: net.head(net.norm(net.scale * x)),
            scale=nn.Parameter(torch.rand(7)),
            norm=norm(7),
            head=nn.Linear(7, CLASSES),
        )
    ),
    # examples that know of each other
    "batch mean taken off": Wiring(behind(lambda net, y: y - y.mean(0)), one_pass=MIXES, per_layer=MIXES),
    "attention over examples": Wiring(
        behind(lambda net, y: torch.softmax(y @ y.T, 1) @ y), one_pass=MIXES, per_layer=MIXES
    ),
    "reversed examples": Wiring(behind(lambda net, y: y.flip(0)), one_pass=MIXES, per_layer=MIXES),
    "branch on values": Wiring(
        behind(lambda net, y: y * 2 if y.sum() > 0 else y), may_refuse=MIXES, per_layer=BRANCHES
    ),
    # parameters and sizes behind the first norm
    "one learned number": Wiring(behind(lambda net, y: y * net.scale, scale=lambda: nn.Parameter(torch.tensor(0.7)))),
    "tied weights": Wiring(behind(lambda net, y: F.linear(y, net.head.weight.t() @ net.head.weight))),
    "size read behind": Wiring(size_read_behind),
    "view changed in place": Wiring(view_changed_in_place, may_refuse=IN_PLACE),
}
