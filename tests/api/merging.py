"""Linear layers with a low-rank update that change in `train` and `eval`, as those of loralib do."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Merging(nn.Linear):
    """Adds its update to the weight in evaluation mode; a flag says so."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.a, self.b = nn.Parameter(torch.randn(2, inputs)), nn.Parameter(torch.randn(outputs, 2))
        self.merged = False

    def switch(self, merge):
        self.weight.data += (self.b.data @ self.a.data) * (1 if merge else -1)

    def train(self, mode=True):
        super().train(mode)
        if self.merged is mode:
            self.merged = not mode
            self.switch(self.merged)
        return self

    def forward(self, x):
        outputs = super().forward(x)
        return outputs if self.merged else outputs + F.linear(F.linear(x, self.a), self.b)


class MergingByEval(Merging):
    """Merges in `eval`, which torch calls for the outermost module alone, so `train` calls it."""

    def train(self, mode=True):
        return super().train(mode) if mode else self.eval()

    def eval(self):
        return Merging.train(self, mode=False)


class Replacing(Merging):
    """Puts another parameter in the place of its weight."""

    def switch(self, merge):
        if merge:
            self.kept = [self.weight]
            self.weight = nn.Parameter(self.weight.data + self.b.data @ self.a.data)
        else:
            self.weight = self.kept[0]
            del self.kept


class Caching(Merging):
    """Keeps the whole weight in a buffer, which is 0 in training mode."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.register_buffer("whole", torch.zeros(outputs, inputs))

    def switch(self, merge):
        self.whole.copy_(self.weight.data + self.b.data @ self.a.data if merge else torch.zeros_like(self.whole))

    def forward(self, x):
        return F.linear(x, self.whole, self.bias) if self.merged else super().forward(x)


MERGING = {kind.__name__: kind for kind in (Merging, MergingByEval, Replacing, Caching)}
