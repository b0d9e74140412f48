"""Spaces and tables of losses for searches without a network."""

from __future__ import annotations

import numpy as np

from bench.support.loss_table import TableLossSource
from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method
from bln_search.core.per_layer import ConfigurationSpace, LayerConfigurationOptions


def choice(name, layers, method="bln", max_options=None):
    """A choice of layers of one method, with its last `max_options` configurations."""
    configurations = all_configurations(Method(method))
    options = configurations if max_options is None else configurations[-max_options:]
    return LayerConfigurationOptions(name, tuple(layers), tuple((code,) * len(layers) for code in options))


def space_of(*choices):
    """The space of these choices."""
    layers = sum(len(part.layers) for part in choices)
    return ConfigurationSpace(tuple(f"layer {index}" for index in range(layers)), choices)


def plain_space(choices=3, method="bln", max_options=None):
    """A choice for each layer."""
    return space_of(*(choice(f"layer {index}", [index], method, max_options) for index in range(choices)))


def additive(space, seed=0):
    """Mean losses in which every option of every choice adds its share, (configurations,)."""
    draw = np.random.default_rng(seed)
    table = np.ones(1)
    for radix in space.num_options_per_choice:
        table = np.add.outer(table, draw.random(radix)).reshape(-1)
    return table


def table_source(space, means, batches=12, size=25, last=10, noise=0.05, seed=1):
    """Mini-batches whose sums of losses scatter around these means, the last one smaller than the others."""
    draw = np.random.default_rng(seed)
    examples = np.array([size] * (batches - 1) + [last])
    scatter = noise * draw.standard_normal((batches, 1))
    return TableLossSource(space, (means + scatter) * examples[:, None], examples)
