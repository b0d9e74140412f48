"""Networks of many kinds, each made by a function, with BatchNorm or LayerNorm layers that were converted."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import bln_search
from tests.api.merging import MERGING
from tests.api.test_isolated_rows import NETWORKS as STATEFUL
from tests.api.test_isolated_rows import Harmless


def make_layers(norm=nn.BatchNorm1d):
    return nn.Sequential(nn.Linear(6, 8), norm(8), nn.ReLU(), nn.Linear(8, 3))


def converted(network):
    """The network after two training passes, converted, in evaluation mode."""
    inputs = torch.randn(2, 20, 6)
    for part in inputs:
        network(part)
    return bln_search.convert(network.eval(), method="same")


def with_layers(layer, **arguments):
    return nn.Sequential(nn.Linear(6, 8), layer(8, **arguments), nn.ReLU(), nn.Linear(8, 3)).eval()


class Convolutional(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.Flatten(), nn.Linear(16, 3))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.norm, self.last = nn.LSTM(2, 8, batch_first=True), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.norm(self.lstm(x.unflatten(1, (3, 2)))[0][:, -1]))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        self.encoder, self.last = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.encoder(x.unsqueeze(1)).mean(1))


class Shared(nn.Module):
    """One normalization layer in two places, and one weight in two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(self.norm(self.second(self.norm(self.first(x)))))


class LowRank(nn.Module):
    """A frozen linear layer with a trained low-rank update, as of LoRA."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 8).requires_grad_(False)
        self.a, self.b, self.scale = nn.Linear(6, 2, bias=False), nn.Linear(2, 8, bias=False), 0.5

    def forward(self, x):
        return self.base(x) + self.scale * self.b(self.a(x))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = make_layers()

    def forward(self, x):
        return checkpoint(self.layers, x, use_reentrant=False)


class WithBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.other = make_layers(), make_layers()

    def forward(self, x):
        return self.layers(x) if x.shape[0] > 2 else self.other(x)


def with_hooks():
    network = converted(make_layers())
    calls = []
    network[0].register_forward_hook(lambda *_: calls.append(1))
    network[1].register_forward_pre_hook(lambda *_: None)
    network[3].register_full_backward_hook(lambda *_: None)
    network.register_forward_hook(lambda module, _inputs, output: setattr(module, "last_output", output))
    return network


def parametrized(wrap, name="weight"):
    network = make_layers()
    wrap(network[0], name)
    return converted(network)


def pruned():
    network = make_layers()
    prune.l1_unstructured(network[0], "weight", 0.5)
    return converted(network)


def compiled():
    return torch.compile(converted(make_layers()), backend="eager")


def compiled_in_place():
    network = converted(make_layers())
    network.compile(backend="eager")
    return network


def frozen():
    return converted(make_layers()).requires_grad_(False)


def with_gradients():
    network = converted(make_layers())
    network(torch.randn(4, 6)).sum().backward()
    return network


def with_mixed_modes():
    network = converted(make_layers()).train()
    network[1].eval()
    return network


def averaged():
    network = AveragedModel(converted(make_layers()))
    network.update_parameters(network.module)
    return network.eval()


def distributed():
    """A network in DistributedDataParallel, in a group of one process."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(converted(make_layers()))


def scripted_part():
    network = nn.Sequential(torch.jit.trace(nn.Linear(6, 6), torch.randn(2, 6)), *make_layers())
    return converted(network)


def with_low_rank_update():
    return converted(nn.Sequential(LowRank(), nn.BatchNorm1d(8), nn.Linear(8, 3)))


def with_dropout():
    return converted(nn.Sequential(make_layers(), nn.Dropout(0.5)))


def applied():
    network = converted(make_layers())
    return bln_search.apply_configuration(network, "TT--")


def moved_to(dtype):
    return converted(make_layers()).to(dtype)


def with_merging_layers(kind):
    """In training mode, apart from one layer, which has merged its weights."""
    network = converted(nn.Sequential(kind(6, 8), nn.BatchNorm1d(8), kind(8, 8), nn.ReLU(), nn.Linear(8, 3))).train()
    network[2].eval()
    return network


PLAIN = {
    "batch norm": lambda: converted(make_layers()),
    "layer norm": lambda: converted(make_layers(nn.LayerNorm)),
    "without running statistics": lambda: converted(make_layers(partial(nn.BatchNorm1d, track_running_stats=False))),
    "without affine parameters": lambda: converted(make_layers(partial(nn.BatchNorm1d, affine=False))),
    "cumulative average": lambda: converted(make_layers(partial(nn.BatchNorm1d, momentum=None))),
    "bln": lambda: with_layers(bln_search.BLN),
    "bn": lambda: with_layers(bln_search.BN),
    "ln": lambda: with_layers(bln_search.LN),
    "mbn": lambda: with_layers(bln_search.MBN),
    "brn": lambda: with_layers(bln_search.BRN),
    "convolutional": lambda: converted(Convolutional()),
    "recurrent": lambda: converted(Recurrent()),
    "transformer": lambda: converted(Transformer()),
    "shared": lambda: converted(Shared()),
    "low-rank update": with_low_rank_update,
    "checkpointed": lambda: converted(Checkpointed()),
    "with branches": lambda: converted(WithBranches()),
    "hooks": with_hooks,
    "weight norm": lambda: parametrized(weight_norm),
    "spectral norm": lambda: parametrized(spectral_norm),
    "orthogonal": lambda: parametrized(parametrizations.orthogonal),
    "pruned": pruned,
    "compiled": compiled,
    "compiled in place": compiled_in_place,
    "frozen": frozen,
    "with gradients": with_gradients,
    "mixed modes": with_mixed_modes,
    "averaged": averaged,
    "distributed": distributed,
    "scripted part": scripted_part,
    "dropout": with_dropout,
    "applied": applied,
    "float16": lambda: moved_to(torch.float16),
    "bfloat16": lambda: moved_to(torch.bfloat16),
    "double": lambda: moved_to(torch.float64),
    "values without effect": lambda: converted_stateful(Harmless),
    **{f"weights by {name}": partial(with_merging_layers, kind) for name, kind in MERGING.items()},
}
"""Networks that the one pass supports."""


def converted_stateful(kind):
    network = kind()
    network.layers(torch.randn(20, 6))
    return bln_search.convert(network.eval(), method="same")


STATES = {kind.__name__: partial(converted_stateful, kind) for kind in STATEFUL}
"""Networks that passes change, which are evaluated row by row."""
