"""Networks as libraries write them: parameters behind norms, sizes read early, layers used twice."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

D = 6


class Block(nn.Module):
    """A network of two layers with room for what stands between them; input (N, 5, 6)."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.second = norm(D), norm(D)
        self.stem, self.middle, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 4)

    def answered(self, x):
        return self.head(x.mean(1))

    def forward(self, x):
        x = self.first(torch.tanh(self.stem(x)))
        return self.answered(self.second(x + self.between(x)))

    def between(self, x):
        return torch.tanh(self.middle(x))


class Scaled(Block):
    """LayerScale: a bare parameter behind a norm."""

    def __init__(self, norm):
        super().__init__(norm)
        self.gamma = nn.Parameter(torch.randn(D))

    def between(self, x):
        return torch.tanh(self.middle(x)) * self.gamma


class ClassToken(Block):
    """A token of its own in front of the others, and positions."""

    def __init__(self, norm):
        super().__init__(norm)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 6, D))

    def forward(self, x):
        x = self.first(self.stem(x))
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.second(torch.tanh(self.middle(x)))[:, 0])


class EarlyClassToken(ClassToken):
    """The number of examples is read in front of the first norm and used behind it, and the token joins between."""

    def forward(self, x):
        n, length, _ = x.shape
        token = self.token.expand(n, -1, -1)
        x = self.first(self.stem(x))
        x = torch.cat([token, x], 1) + self.positions[:, : length + 1]
        return self.head(self.second(torch.tanh(self.middle(x))).view(n, -1, D)[:, 0])


class Buffers(Block):
    """Masks, indices and a table of positions that is cut to the length at hand."""

    def __init__(self, norm):
        super().__init__(norm)
        self.register_buffer("mask", torch.tensor([True, False, True, True, False, True]))
        self.register_buffer("order", torch.tensor([3, 1, 4, 0, 2]), persistent=False)
        self.register_buffer("positions", torch.randn(1, 9, D))
        self.table = nn.Parameter(torch.randn(7, D))

    def between(self, x):
        x = torch.where(self.mask, x, 0.0)[:, self.order] + self.positions[:, : x.size(1)]
        return torch.tanh(self.middle(x + self.table[self.order].view(1, 5, D).contiguous()))


class Einsum(Block):
    """A weight of three axes; as many rows as the mini-batches of the tests have examples."""

    def __init__(self, norm):
        super().__init__(norm)
        self.weight, self.square = nn.Parameter(torch.randn(2, D, 3)), nn.Parameter(torch.randn(D, D))

    def between(self, x):
        return torch.einsum("nti,hio->ntho", x, self.weight).flatten(2) @ self.square


class EarlySizes(Block):
    """Sizes of all kinds, read in front of a norm and used behind it."""

    def forward(self, x):
        x = self.stem(x)
        n, shape, tokens = len_of(x), x.size(), x.shape[0] * x.shape[1]
        h = self.first(x)
        h = h.reshape(tokens, D) + torch.arange(D, device=x.device, dtype=x.dtype)
        h = torch.tanh(self.middle(h)).view(shape) + torch.zeros(n, 1, D, dtype=x.dtype)
        places = torch.arange(n, device=x.device)
        h = self.second(h)
        return self.answered(h) + h[places, torch.ones(n, dtype=torch.long)][:, :4]


def len_of(x):
    return x.size(0)


class Merged(Block):
    """Windows: examples and positions on one axis between the norms, as in a Swin transformer."""

    def __init__(self, norm):
        super().__init__(norm)
        self.bias = nn.Parameter(torch.randn(2, D))

    def forward(self, x):
        x = torch.cat([x, x[:, :1]], 1)
        n, t, _ = x.shape
        h = self.first(self.stem(x))
        windows = h.view(n * (t // 2), 2, D) + self.bias
        attended = F.softmax(windows @ windows.transpose(1, 2), -1) @ windows
        return self.answered(self.second(x + attended.reshape(n, t, D)))


class Optional(Block):
    """Parameters of the forward pass that have defaults."""

    def forward(self, x, mask=None, is_causal=False, *others, scale=2.0, **more):
        x = self.first(self.stem(x))
        if mask is not None:
            x = x * mask
        if is_causal or others or more:
            x = x.cumsum(1)
        return self.answered(self.second(torch.tanh(self.middle(x)) * scale))


class Tied(Block):
    """The same block three times over, with its norm; another norm in between."""

    def forward(self, x):
        x = self.first(self.stem(x))
        for _ in range(2):
            x = x + self.first(torch.tanh(self.middle(x)))
            x = self.second(x)
        return self.answered(self.first(x))


class Siamese(Block):
    """Two inputs on axis 1 through one encoder."""

    def encoded(self, x):
        return self.second(torch.tanh(self.middle(self.first(self.stem(x)))))

    def forward(self, x):
        return self.head((self.encoded(x[:, 0]) - self.encoded(x[:, 1])).abs())


class Padded(Block):
    """Encoders of torch with padding: a stack, and a layer by itself that normalizes first."""

    def __init__(self, norm):
        super().__init__(norm)
        stacked, alone = (
            nn.TransformerEncoderLayer(D, 2, 8, 0.0, batch_first=True, norm_first=norm_first)
            for norm_first in (False, True)
        )
        self.encoder, self.alone = nn.TransformerEncoder(stacked, 1, enable_nested_tensor=False), alone
        stacked, *_ = self.encoder.layers
        stacked.norm1, stacked.norm2, alone.norm1, alone.norm2 = self.first, norm(D), self.second, self.second

    def forward(self, x):
        padding = x[:, :, 0] > 1
        padding[:, 0].fill_(False)
        x = self.encoder(self.stem(x), src_key_padding_mask=padding)
        return self.answered(self.alone(x, src_mask=torch.ones(5, 5, dtype=torch.bool).triu(1)))


FOLLOWED = {
    "scaled": Scaled,
    "class token": ClassToken,
    "early class token": EarlyClassToken,
    "buffers": Buffers,
    "einsum": Einsum,
    "early sizes": EarlySizes,
    "merged": Merged,
    "optional": Optional,
    "tied": Tied,
    "siamese": Siamese,
    "padded": Padded,
}
