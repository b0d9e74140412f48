"""Networks as in libraries: parameters after norms, sizes read before a norm, layers used several times."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import make_norm
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name

D = 6

SIZE = 4
"""The mini-batch size."""


class Block(nn.Module):
    """Two normalization layers with a replaceable part `between` them; input (N, 5, 6)."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.second = norm(D), norm(D)
        self.stem, self.middle, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 4)

    def classify(self, x):
        return self.head(x.mean(1))

    def forward(self, x):
        x = self.first(torch.tanh(self.stem(x)))
        return self.classify(self.second(x + self.between(x)))

    def between(self, x):
        return torch.tanh(self.middle(x))


class Scaled(Block):
    """LayerScale: a parameter of the network itself after a norm."""

    def __init__(self, norm):
        super().__init__(norm)
        self.gamma = nn.Parameter(torch.randn(D))

    def between(self, x):
        return torch.tanh(self.middle(x)) * self.gamma


class ClassToken(Block):
    """A learned token before the others, and position embeddings."""

    def __init__(self, norm):
        super().__init__(norm)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 6, D))

    def forward(self, x):
        x = self.first(self.stem(x))
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.second(torch.tanh(self.middle(x)))[:, 0])


class EarlyClassToken(ClassToken):
    """Reads the number of examples before the first norm, uses it after the norm, and adds the token between."""

    def forward(self, x):
        n, length, _ = x.shape
        token = self.token.expand(n, -1, -1)
        x = self.first(self.stem(x))
        x = torch.cat([token, x], 1) + self.positions[:, : length + 1]
        return self.head(self.second(torch.tanh(self.middle(x))).view(n, -1, D)[:, 0])


class Buffers(Block):
    """Masks, indices and a table of positions that is cut to the length of the input."""

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
    """A weight with three axes in an einsum, and a square one."""

    def __init__(self, norm):
        super().__init__(norm)
        self.weight, self.square = nn.Parameter(torch.randn(2, D, 3)), nn.Parameter(torch.randn(D, D))

    def between(self, x):
        return torch.einsum("nti,hio->ntho", x, self.weight).flatten(2) @ self.square


class EarlySizes(Block):
    """Sizes of all kinds, read before a norm and used after it."""

    def forward(self, x):
        x = self.stem(x)
        n, shape, tokens = num_examples(x), x.size(), x.shape[0] * x.shape[1]
        h = self.first(x)
        h = h.reshape(tokens, D) + torch.arange(D, device=x.device, dtype=x.dtype)
        h = torch.tanh(self.middle(h)).view(shape) + torch.zeros(n, 1, D, dtype=x.dtype)
        places = torch.arange(n, device=x.device)
        h = self.second(h)
        return self.classify(h) + h[places, torch.ones(n, dtype=torch.long)][:, :4]


def num_examples(x):
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
        return self.classify(self.second(x + attended.reshape(n, t, D)))


class Optional(Block):
    """Parameters of the forward pass that have defaults."""

    def forward(self, x, mask=None, is_causal=False, *others, scale=2.0, **more):
        x = self.first(self.stem(x))
        if mask is not None:
            x = x * mask
        if is_causal or others or more:
            x = x.cumsum(1)
        return self.classify(self.second(torch.tanh(self.middle(x)) * scale))


class Tied(Block):
    """Calls the same block and its norm several times, and another norm in between."""

    def forward(self, x):
        x = self.first(self.stem(x))
        for _ in range(2):
            x = x + self.first(torch.tanh(self.middle(x)))
            x = self.second(x)
        return self.classify(self.first(x))


class Siamese(Block):
    """One encoder for two inputs on axis 1."""

    def encode(self, x):
        return self.second(torch.tanh(self.middle(self.first(self.stem(x)))))

    def forward(self, x):
        return self.head((self.encode(x[:, 0]) - self.encode(x[:, 1])).abs())


class Padded(Block):
    """Torch's encoders with padding: a stack, and a single layer with `norm_first`."""

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
        return self.classify(self.alone(x, src_mask=torch.ones(5, 5, dtype=torch.bool).triu(1)))


LIBRARY_NETWORKS = {
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


def draw_sequences(n, seed=1):
    """Return random sequences (n, 5, D) and classes (n,)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, D, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 4, (n,), generator=generator)


def build_network(make_network, method):
    """Return a network in double precision with random γ and β."""
    torch.manual_seed(0)
    network = make_network(partial(make_norm, method, batch_size=SIZE)).double().eval()
    with torch.no_grad():
        for layer in get_norms_by_name(network).values():
            layer.weight.normal_()
            layer.bias.normal_()
    return network


def frozen_populations(network):
    moments = {
        PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, draw_sequences(24, 2)[0].split(SIZE))
    }
    return compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
