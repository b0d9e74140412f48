"""Networks of sequences and of token ids."""

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
    first_of,
    function,
    linear,
    module,
    normal,
    stack,
)


def attention(norm):
    """Pre-norm attention and perceptron, single head."""
    return Wired(
        _attended,
        first=norm(6),
        second=norm(6, "ln"),
        query=nn.Linear(6, 6),
        key=nn.Linear(6, 6),
        value=nn.Linear(6, 6),
        inner=nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 6)),
        head=nn.Linear(6, CLASSES),
    )


def _attended(net, x):
    y = net.first(x)
    x = x + F.scaled_dot_product_attention(net.query(y), net.key(y), net.value(y))
    x = x + net.inner(net.second(x))
    return net.head(x.mean(1))


def post_norm(norm):
    """Norm after the sum, as in the first transformer."""
    return Wired(
        lambda net, x: net.head(net.norm(x + torch.softmax(net.q(x) @ x.transpose(1, 2), 2) @ x)[:, -1]),
        q=nn.Linear(6, 6),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def multihead(norm):
    return Wired(
        lambda net, x: net.head(net.attention(*[net.norm(x)] * 3, need_weights=False)[0].amax(1)),
        norm=norm(6),
        attention=nn.MultiheadAttention(6, 2, batch_first=True),
        head=nn.Linear(6, CLASSES),
    )


def tokens(layer):
    """Embedded token ids, then `layer` from (N, 4, 6) to (N, 6), then a head."""
    return lambda norm: Wired(
        lambda net, x: net.head(net.layer(net.embed(x))),
        embed=nn.Embedding(11, 6),
        layer=layer(norm),
        head=nn.Linear(6, CLASSES),
    )


def masked_mean(norm):
    """Mean over the tokens without padding."""
    return Wired(
        lambda net, x: net.head(_masked_mean(net.norm(net.embed(x)), (x > 3).unsqueeze(2))),
        embed=nn.Embedding(11, 6),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def _masked_mean(y, mask):
    return (y * mask).sum(1) / mask.sum(1).clamp_min(1)


def class_token(norm):
    """A learned token before a normalized sequence."""
    return Wired(
        lambda net, x: net.head(torch.cat([net.token.expand(x.shape[0], 1, 6), net.norm(x)], 1).amax(1)),
        token=nn.Parameter(torch.randn(1, 1, 6)),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def class_token_before(norm):
    return Wired(
        lambda net, x: net.head(net.norm(torch.cat([net.token.expand(x.shape[0], 1, 6), x], 1))[:, 0]),
        token=nn.Parameter(torch.randn(1, 1, 6)),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def innermost(x):
    """Examples on the first axis, but innermost in memory."""
    return x.movedim(0, -1).contiguous().movedim(-1, 0)


SEQUENCES = {
    "positions before": Wiring(
        lambda norm: Wired(
            lambda net, x: net.head(net.norm(x + net.position).flatten(1)),
            position=nn.Parameter(torch.randn(4, 6)),
            norm=norm(6),
            head=nn.Linear(24, CLASSES),
        ),
        inputs="sequences",
    ),
    # sequences
    "sequence, mean": Wiring(stack(normal(6), MEAN, linear(6, CLASSES)), inputs="sequences"),
    "sequence, flattened": Wiring(stack(normal(6), FLAT, normal(24), linear(24, CLASSES)), inputs="sequences"),
    "sequence, bn": Wiring(stack(normal(6, "bn"), MEAN, linear(6, CLASSES)), inputs="sequences"),
    "sequence, ln": Wiring(stack(normal(6, "ln"), MEAN, linear(6, CLASSES)), inputs="sequences"),
    "channels of a sequence": Wiring(
        stack(
            function(lambda x: x.transpose(1, 2)),
            module(nn.Conv1d, 6, 5, 2),
            normal(5, feature_axis=1),
            module(nn.Flatten),
            linear(15, CLASSES),
        ),
        inputs="sequences",
    ),
    "transposed and back": Wiring(
        stack(
            function(lambda x: x.transpose(1, 2)),
            normal(4),
            function(lambda x: x.transpose(1, 2)),
            normal(6),
            FLAT,
            linear(24, CLASSES),
        ),
        inputs="sequences",
    ),
    "convolution over time behind": Wiring(
        stack(normal(6), function(lambda x: x.permute(0, 2, 1)), module(nn.Conv1d, 6, 3, 3), FLAT, linear(6, CLASSES)),
        inputs="sequences",
    ),
    "attention": Wiring(attention, inputs="sequences"),
    "attention, norm behind": Wiring(post_norm, inputs="sequences"),
    "attention, two heads": Wiring(multihead, inputs="sequences"),
    "gru, norm, last state": Wiring(
        stack(first_of(nn.GRU, 6, 5), normal(5), function(lambda x: x[:, -1]), linear(5, CLASSES)), inputs="sequences"
    ),
    "norm, gru": Wiring(
        stack(normal(6), first_of(nn.GRU, 6, 5), function(lambda x: x[:, -1]), normal(5), linear(5, CLASSES)),
        inputs="sequences",
    ),
    "lstm both ways, norm": Wiring(
        stack(first_of(nn.LSTM, 6, 3, bidirectional=True), normal(6), MEAN, linear(6, CLASSES)), inputs="sequences"
    ),
    "norm, rnn": Wiring(stack(normal(6), first_of(nn.RNN, 6, 5), MEAN, linear(5, CLASSES)), inputs="sequences"),
    # token ids
    "embedding, norm": Wiring(tokens(stack(normal(6), MEAN)), inputs="tokens"),
    "embedding, mean, norm": Wiring(tokens(stack(MEAN, normal(6))), inputs="tokens"),
    "embedding, norm, gru, norm": Wiring(
        tokens(stack(normal(6), first_of(nn.GRU, 6, 6), function(lambda x: x[:, -1]), normal(6))), inputs="tokens"
    ),
    "bag of embeddings": Wiring(stack(module(nn.EmbeddingBag, 11, 6), normal(6), linear(6, CLASSES)), inputs="tokens"),
    "padding masked": Wiring(masked_mean, inputs="tokens"),
    "class token before": Wiring(class_token_before, inputs="sequences"),
    "class token behind": Wiring(class_token, inputs="sequences", may_refuse=r"shape|[Ss]ize"),
    "examples innermost": Wiring(stack(function(innermost), normal(6), MEAN, linear(6, CLASSES)), inputs="sequences"),
}
