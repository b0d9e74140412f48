"""A network's losses from the papers' formulas alone, in NumPy and float64, one plain forward pass a configuration.

The layer below takes the place of a normalization layer in the same network. It shares no code with
`bln_search.norms`; `test_wirings.py` compares it with the loops of `tests/norms/oracle.py`.

Sources: BLN (Ziaee & Çano 2022, Eq. 10-25), BN (Ioffe & Szegedy 2015), LN (Ba et al. 2016), MBN (Guo et al. 2018, Eq.
5-8), BRN (Ioffe 2017, Algorithm 1).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

SOURCES = {"bn": ("TF", "TF", "-", "-"), "brn": ("TF", "TF", "-", "-"), "ln": ("-", "-", "TF", "TF")}
SOURCES |= {"bln": ("TF",) * 4, "mbn": ("MTF", "MTF", "-", "-")}
BATCH, FEATURE = slice(0, 2), slice(2, 4)


class UndefinedError(Exception):
    """A configuration that has no value: m/(m − 1) for m = 1, or more examples than slots."""


class OracleNorm(nn.Module):
    """y = γ·(w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F) + β, every statistic written out.

    word: where the statistics come from. observed: (mean, variance) of each pair in every pass while `observing`.
    """

    def __init__(self, features, method="bln", *, semantics, m, feature_axis=None, memory=(4, 0.9, 0.5), momentum=0.9):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.method, self.m, self.features, self.feature_axis = method, m, features, feature_axis
        reference, batch_alone = semantics == "reference", method in ("bn", "mbn", "brn")
        self.epsilon = 1e-3 if reference else 1e-4
        self.pooled = batch_alone or not reference
        self.around_chosen = not batch_alone and not reference
        self.corrects_variance = batch_alone or reference
        self.word, self.estimate, self.values = "FFFF", "frozen", {}
        self.observing, self.observed = False, []
        self.memory, self.remembered = memory, []
        self.momentum, self.moving, self.steps = momentum, None, 0

    def forward(self, x):
        axis = self.feature_axis if self.feature_axis is not None else (2 if x.ndim == 3 else 1)
        moved = np.moveaxis(x.detach().numpy(), axis, -1)
        rows = moved.reshape(len(x), -1, self.features)
        if self.training:
            made = self.trained(rows)
        else:
            if self.observing:
                self.observe(rows)
            made = self.normalized(rows)
        made = self.weight.detach().numpy() * made + self.bias.detach().numpy()
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(made.reshape(moved.shape), -1, axis)))

    @property
    def batch_axes(self):
        return (0, 1) if self.pooled else (0,)

    def weights(self):
        """Of the mini-batch part and the feature part, Eq. 16."""
        if self.method == "ln":
            return 0.0, 1.0
        if self.method != "bln":
            return 1.0, 0.0
        root = np.sqrt(self.features)
        return (1 - (1 / self.m + 1e-4)) / root, (1 / self.m - 1e-4) / root

    def normalized(self, rows):
        parts = zip(self.weights(), (BATCH, FEATURE), (self.batch_axes, (2,)), strict=True)
        return sum(weight * self.pair(rows, self.word[at], at, axes) for weight, at, axes in parts if weight)

    def pair(self, rows, letters, at, axes):
        """(x − E)/Std, Eq. 18-21."""
        own = rows.mean(axes, keepdims=True)
        mean = own if letters[0] == "F" else self.value(letters[0], at, 0, len(rows))
        around = mean if self.around_chosen else own
        if letters[1] == "F":
            deviation = np.sqrt(((rows - around) ** 2).mean(axes, keepdims=True) + self.epsilon)
        else:
            deviation = self.value(letters[1], at, 1, len(rows))
        return (rows - mean) / deviation

    def value(self, letter, at, place, examples):
        """A population value, cut to the slots of the mini-batch."""
        values = self.values["memory" if letter == "M" else self.estimate][at == FEATURE]
        if values[place] is None or 1 < len(values[place]) < examples:
            raise UndefinedError
        return values[place][:examples]

    def observe(self, rows):
        found = []
        for axes in (self.batch_axes, (2,)):
            mean = rows.mean(axes, keepdims=True)
            found.append((mean, ((rows - mean) ** 2).mean(axes, keepdims=True)))
        self.observed.append((len(rows), rows.shape[1], found))

    def estimate_population(self, correction, *, per_slot):
        """From what was observed of the largest mini-batches: E[μ], and the deviation after Bessel or of the total."""
        m = max((n for n, _, _ in self.observed), default=0)
        kept = [(positions, pairs) for n, positions, pairs in self.observed if n == m]
        if not kept:
            return
        made = []
        for pair, slots in ((0, ()), (1, () if per_slot else (0,))):
            means = np.stack([pairs[pair][0] for _, pairs in kept])
            variances = np.stack([pairs[pair][1] for _, pairs in kept])
            axes = (0, *(1 + slot for slot in slots), *((2,) if pair == 1 and self.pooled else ()))
            n = m * kept[0][0] if self.method in ("bn", "mbn") else m
            made.append((means.mean(axes, keepdims=True)[0], self.deviation(means, variances, axes, n, correction)))
        self.values["frozen"] = made

    def deviation(self, means, variances, axes, n, correction):
        if correction == "total":
            between = ((means - means.mean(axes, keepdims=True)) ** 2).mean(axes, keepdims=True)
            return np.sqrt(variances.mean(axes, keepdims=True) + between + self.epsilon)[0]
        if self.method == "brn":
            return np.sqrt(variances + self.epsilon).mean(axes, keepdims=True)[0]
        if n == 1:
            return None
        if self.corrects_variance:
            return np.sqrt(n / (n - 1) * variances.mean(axes, keepdims=True) + self.epsilon)[0]
        return n / (n - 1) * np.sqrt(variances + self.epsilon).mean(axes, keepdims=True)[0]

    def trained(self, rows):
        """A step in training mode; MBN and BRN put it into their histories."""
        if self.method == "mbn":
            return self.trained_memorized(rows)
        return self.trained_renormalized(rows) if self.method == "brn" else self.normalized(rows)

    def trained_memorized(self, rows):
        size, decay, share = self.memory
        own = rows.mean((0, 1))
        now = (own, ((rows - own) ** 2).mean((0, 1)), rows.shape[0] * rows.shape[1])
        aged = [(share * decay**age, entry) for age, entry in enumerate(self.remembered)]
        mean, variance = pooled([(1.0, now), *aged])
        self.remembered = [now, *self.remembered][:size]
        mean_at_inference, variance_at_inference = pooled(
            [(decay**age, entry) for age, entry in enumerate(self.remembered)]
        )
        deviation = np.sqrt(variance_at_inference + self.epsilon)
        self.values["memory"] = [(mean_at_inference[None, None], deviation[None, None]), None]
        return (rows - mean) / np.sqrt(variance + self.epsilon)

    def trained_renormalized(self, rows):
        own = rows.mean((0, 1))
        deviation = np.sqrt(((rows - own) ** 2).mean((0, 1)) + self.epsilon)
        r, d = np.ones_like(own), np.zeros_like(own)
        if self.moving is not None:
            mean, spread = self.moving / (1 - self.momentum**self.steps)
            r, d = np.clip(deviation / spread, 1 / 3, 3), np.clip((own - mean) / spread, -5, 5)
        before = 0.0 if self.moving is None else self.moving
        self.moving = self.momentum * before + (1 - self.momentum) * np.stack([own, deviation])
        self.steps += 1
        mean, spread = self.moving / (1 - self.momentum**self.steps)
        self.values["moving"] = [(mean[None, None], spread[None, None]), None]
        return r * (rows - own) / deviation + d


def pooled(weighted):
    """μ̂ and σ̂² over mini-batches (mean, variance, n) with weights a, MBN's Eq. 6."""
    total = sum(a * n for a, (_, _, n) in weighted)
    mean = sum(a * n * mean for a, (mean, _, n) in weighted) / total
    return mean, sum(a * n * ((own - mean) ** 2 + variance) for a, (own, variance, n) in weighted) / total


class Oracle:
    """A network of oracle layers."""

    def __init__(self, network):
        self.network = network.eval()
        self.layers = {name: one for name, one in network.named_modules() if isinstance(one, OracleNorm)}

    @property
    def words(self):
        """Every configuration of the network: of the one method it has, or of BLN."""
        own = {SOURCES[layer.method] for layer in self.layers.values()}
        sources = own.pop() if len(own) == 1 else SOURCES["bln"]
        return [a + b + c + d for a in sources[0] for b in sources[1] for c in sources[2] for d in sources[3]]

    @property
    def estimates(self):
        """Estimates that all layers have, besides the memory."""
        reached = [set(layer.values) for layer in self.layers.values() if layer.values]
        return sorted(set.intersection(*reached) - {"memory"})

    @torch.no_grad()
    def train(self, batches):
        self.network.train()
        for x in batches:
            self.network(x.clone())
        self.network.eval()

    @torch.no_grad()
    def gather(self, batches, correction, *, per_slot):
        for layer in self.layers.values():
            layer.observing, layer.word = True, "FFFF"
        for x in batches:
            self.network(x.clone())
        for layer in self.layers.values():
            layer.observing = False
            layer.estimate_population(correction, per_slot=per_slot)

    @torch.no_grad()
    @np.errstate(invalid="ignore")
    def losses(self, words, batches, estimate="frozen"):
        """Per-example losses; words: by the layers' names. None where a layer's word has no value."""
        for name, layer in self.layers.items():
            layer.word, layer.estimate = words[name], estimate
        try:
            return np.concatenate([cross_entropy(self.network(x.clone()).numpy()[: len(y)], y) for x, y in batches])
        except UndefinedError:
            return None


def cross_entropy(logits, classes):
    """−log softmax, in nats."""
    shifted = logits - logits.max(1, keepdims=True)
    return np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(classes)), classes.numpy()]


def filled(batches):
    """An incomplete mini-batch with examples of the first behind it, whose targets are missing."""
    first = batches[0][0]
    return [(torch.cat([x, first[: len(first) - len(x)]]), y) for x, y in batches]


def cut(x, y, size):
    """Mini-batches of `size`, the last filled with the first examples."""
    return filled([(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)])
