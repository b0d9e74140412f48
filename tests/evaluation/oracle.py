"""Losses of a network by the formulas of the papers, in NumPy and float64, with one forward pass per configuration.

`OracleNorm` replaces a normalization layer in the same network. It shares no code with `bln_search.norms`;
`test_wirings.py` compares it with the loops of `tests/norms/oracle.py`.

Sources: BLN (Ziaee & Çano 2022, Eq. 10-25), BN (Ioffe & Szegedy 2015), LN (Ba et al. 2016), MBN (Guo et al. 2018, Eq.
5-8), BRN (Ioffe 2017, Algorithm 1).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

METHOD_SOURCES = {"bn": ("TF", "TF", "-", "-"), "brn": ("TF", "TF", "-", "-"), "ln": ("-", "-", "TF", "TF")}
METHOD_SOURCES |= {"bln": ("TF",) * 4, "mbn": ("MTF", "MTF", "-", "-")}
BATCH, FEATURE = slice(0, 2), slice(2, 4)


class UndefinedError(Exception):
    """The configuration is undefined: m/(m − 1) for m = 1, or more examples than slots."""


class OracleNorm(nn.Module):
    """y = γ·(w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F) + β, with explicit formulas for all statistics.

    code: sources of the statistics.
    observed: while `is_observing`, (mean, variance) of each pair in every pass.
    values: by estimate, (mean, deviation) of each pair.
    """

    def __init__(self, features, method="bln", *, semantics, m, feature_axis=None, memory=(4, 0.9, 0.5), momentum=0.9):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.method, self.m, self.features, self.feature_axis = method, m, features, feature_axis
        is_reference, has_batch_only = semantics == "reference", method in ("bn", "mbn", "brn")
        self.epsilon = 1e-3 if is_reference else 1e-4
        self.pools_positions = has_batch_only or not is_reference
        self.around_selected_mean = not has_batch_only and not is_reference
        self.corrects_variance = has_batch_only or is_reference
        self.code, self.estimate, self.values = "FFFF", "frozen", {}
        self.is_observing, self.observed = False, []
        self.memory, self.memory_entries = memory, []
        self.momentum, self.moving, self.steps = momentum, None, 0

    def forward(self, x):
        axis = self.feature_axis if self.feature_axis is not None else (2 if x.ndim == 3 else 1)
        moved = np.moveaxis(x.detach().numpy(), axis, -1)
        rows = moved.reshape(len(x), -1, self.features)
        if self.training:
            outputs = self.train_step(rows)
        else:
            if self.is_observing:
                self.observe(rows)
            outputs = self.normalize(rows)
        outputs = self.weight.detach().numpy() * outputs + self.bias.detach().numpy()
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(outputs.reshape(moved.shape), -1, axis)))

    @property
    def batch_axes(self):
        return (0, 1) if self.pools_positions else (0,)

    def branch_weights(self):
        """Return the weights of the mini-batch branch and the feature branch, Eq. 16."""
        if self.method == "ln":
            return 0.0, 1.0
        if self.method != "bln":
            return 1.0, 0.0
        root = np.sqrt(self.features)
        return (1 - (1 / self.m + 1e-4)) / root, (1 / self.m - 1e-4) / root

    def normalize(self, rows):
        branches = zip(self.branch_weights(), (BATCH, FEATURE), (self.batch_axes, (2,)), strict=True)
        return sum(weight * self.branch(rows, self.code[pair], pair, axes) for weight, pair, axes in branches if weight)

    def branch(self, rows, letters, pair, axes):
        """Return (x − E)/Std, Eq. 18-21."""
        batch_mean = rows.mean(axes, keepdims=True)
        mean = batch_mean if letters[0] == "F" else self.population_value(letters[0], pair, 0, len(rows))
        centre = mean if self.around_selected_mean else batch_mean
        if letters[1] == "F":
            deviation = np.sqrt(((rows - centre) ** 2).mean(axes, keepdims=True) + self.epsilon)
        else:
            deviation = self.population_value(letters[1], pair, 1, len(rows))
        return (rows - mean) / deviation

    def population_value(self, letter, pair, index, examples):
        """Return the mean (index 0) or deviation (1) of a pair, cut to the slots of the mini-batch."""
        values = self.values["memory" if letter == "M" else self.estimate][pair == FEATURE]
        if values[index] is None or 1 < len(values[index]) < examples:
            raise UndefinedError
        return values[index][:examples]

    def observe(self, rows):
        pairs = []
        for axes in (self.batch_axes, (2,)):
            mean = rows.mean(axes, keepdims=True)
            pairs.append((mean, ((rows - mean) ** 2).mean(axes, keepdims=True)))
        self.observed.append((len(rows), rows.shape[1], pairs))

    def estimate_population(self, correction, *, per_slot):
        """Compute E[μ] and the deviation (`bessel` or `total`) from the largest observed mini-batches."""
        m = max((n for n, _, _ in self.observed), default=0)
        largest = [(positions, pairs) for n, positions, pairs in self.observed if n == m]
        if not largest:
            return
        values = []
        for pair, slots in ((0, ()), (1, () if per_slot else (0,))):
            means = np.stack([pairs[pair][0] for _, pairs in largest])
            variances = np.stack([pairs[pair][1] for _, pairs in largest])
            axes = (0, *(1 + slot for slot in slots), *((2,) if pair == 1 and self.pools_positions else ()))
            n = m * largest[0][0] if self.method in ("bn", "mbn") else m
            values.append(
                (means.mean(axes, keepdims=True)[0], self.population_deviation(means, variances, axes, n, correction))
            )
        self.values["frozen"] = values

    def population_deviation(self, means, variances, axes, n, correction):
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

    def train_step(self, rows):
        """Normalize in training mode; MBN and BRN also update their histories."""
        if self.method == "mbn":
            return self.mbn_train_step(rows)
        return self.brn_train_step(rows) if self.method == "brn" else self.normalize(rows)

    def mbn_train_step(self, rows):
        size, decay, lambda_ = self.memory
        batch_mean = rows.mean((0, 1))
        current = (batch_mean, ((rows - batch_mean) ** 2).mean((0, 1)), rows.shape[0] * rows.shape[1])
        weighted_memory = [(lambda_ * decay**age, entry) for age, entry in enumerate(self.memory_entries)]
        mean, variance = pool([(1.0, current), *weighted_memory])
        self.memory_entries = [current, *self.memory_entries][:size]
        mean_at_inference, variance_at_inference = pool(
            [(decay**age, entry) for age, entry in enumerate(self.memory_entries)]
        )
        deviation = np.sqrt(variance_at_inference + self.epsilon)
        self.values["memory"] = [(mean_at_inference[None, None], deviation[None, None]), None]
        return (rows - mean) / np.sqrt(variance + self.epsilon)

    def brn_train_step(self, rows):
        batch_mean = rows.mean((0, 1))
        deviation = np.sqrt(((rows - batch_mean) ** 2).mean((0, 1)) + self.epsilon)
        r, d = np.ones_like(batch_mean), np.zeros_like(batch_mean)
        if self.moving is not None:
            moving_mean, moving_deviation = self.moving / (1 - self.momentum**self.steps)
            r = np.clip(deviation / moving_deviation, 1 / 3, 3)
            d = np.clip((batch_mean - moving_mean) / moving_deviation, -5, 5)
        previous = 0.0 if self.moving is None else self.moving
        self.moving = self.momentum * previous + (1 - self.momentum) * np.stack([batch_mean, deviation])
        self.steps += 1
        moving_mean, moving_deviation = self.moving / (1 - self.momentum**self.steps)
        self.values["moving"] = [(moving_mean[None, None], moving_deviation[None, None]), None]
        return r * (rows - batch_mean) / deviation + d


def pool(weighted):
    """Return μ̂ and σ̂² over mini-batches (mean, variance, n) with weights a, MBN's Eq. 6."""
    total = sum(weight * n for weight, (_, _, n) in weighted)
    mean = sum(weight * n * batch_mean for weight, (batch_mean, _, n) in weighted) / total
    squares = sum(weight * n * ((batch_mean - mean) ** 2 + variance) for weight, (batch_mean, variance, n) in weighted)
    return mean, squares / total


class Oracle:
    """A network of oracle layers."""

    def __init__(self, network):
        self.network = network.eval()
        self.layers = {name: module for name, module in network.named_modules() if isinstance(module, OracleNorm)}

    @property
    def codes(self):
        """All configurations of the network: those of its only method, or of BLN."""
        layer_sources = {METHOD_SOURCES[layer.method] for layer in self.layers.values()}
        sources = layer_sources.pop() if len(layer_sources) == 1 else METHOD_SOURCES["bln"]
        return [
            batch_mean + batch_deviation + feature_mean + feature_deviation
            for batch_mean in sources[0]
            for batch_deviation in sources[1]
            for feature_mean in sources[2]
            for feature_deviation in sources[3]
        ]

    @property
    def estimates(self):
        """The estimates, except the memory, that all reached layers have."""
        reached = [set(layer.values) for layer in self.layers.values() if layer.values]
        return sorted(set.intersection(*reached) - {"memory"})

    @torch.no_grad()
    def train(self, batches):
        self.network.train()
        for x in batches:
            self.network(x.clone())
        self.network.eval()

    @torch.no_grad()
    def estimate_populations(self, batches, correction, *, per_slot):
        for layer in self.layers.values():
            layer.is_observing, layer.code = True, "FFFF"
        for x in batches:
            self.network(x.clone())
        for layer in self.layers.values():
            layer.is_observing = False
            layer.estimate_population(correction, per_slot=per_slot)

    @torch.no_grad()
    @np.errstate(invalid="ignore")
    def losses(self, layer_codes, batches, estimate="frozen"):
        """Return per-example losses under a configuration of each layer, by name; None where one is undefined."""
        for name, layer in self.layers.items():
            layer.code, layer.estimate = layer_codes[name], estimate
        try:
            return np.concatenate([cross_entropy(self.network(x.clone()).numpy()[: len(y)], y) for x, y in batches])
        except UndefinedError:
            return None


def cross_entropy(logits, classes):
    """Return −log softmax of the class, in nats."""
    shifted = logits - logits.max(1, keepdims=True)
    return np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(classes)), classes.numpy()]


def fill_batches(batches):
    """Fill an incomplete mini-batch with examples of the first one, without targets."""
    first = batches[0][0]
    return [(torch.cat([x, first[: len(first) - len(x)]]), y) for x, y in batches]


def split_and_fill(x, y, size):
    """Return mini-batches of `size`; the last one is filled with the first examples."""
    return fill_batches([(x[start : start + size], y[start : start + size]) for start in range(0, len(x), size)])
