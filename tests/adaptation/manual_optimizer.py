"""The formulas of optimizers."""

from __future__ import annotations

import torch


class ManualOptimizer:
    """SGD with momentum 0.9, or Adam, over a list of tensors."""

    def __init__(self, name, rate):
        self.name, self.rate, self.step, self.first, self.second = name, rate, 0, None, None

    def apply(self, values, gradients):
        self.step += 1
        if self.first is None:
            self.first, self.second = [0 * g for g in gradients], [0 * g for g in gradients]
        if self.name == "sgd":
            self.first = [0.9 * v + g for v, g in zip(self.first, gradients, strict=True)]
            return [x - self.rate * v for x, v in zip(values, self.first, strict=True)]
        self.first = [0.9 * v + 0.1 * g for v, g in zip(self.first, gradients, strict=True)]
        self.second = [0.999 * s + 0.001 * g * g for s, g in zip(self.second, gradients, strict=True)]
        return [
            x - self.rate * (v / (1 - 0.9**self.step)) / (torch.sqrt(s / (1 - 0.999**self.step)) + 1e-8)
            for x, v, s in zip(values, self.first, self.second, strict=True)
        ]
