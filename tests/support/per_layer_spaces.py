"""Random spaces of per-layer configurations."""

from __future__ import annotations

from hypothesis import strategies as st

from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method
from bln_search.core.per_layer import ConfigurationSpace, LayerConfigurationOptions


@st.composite
def spaces(draw):
    """Spaces of layers of one method or several; some layers are tied, and some options are missing."""
    methods = draw(st.lists(st.sampled_from(["bln", "bn", "ln"]), min_size=1, max_size=5))
    tied: dict[int, list[int]] = {}
    for layer in range(len(methods)):
        tied.setdefault(draw(st.integers(0, layer)), []).append(layer)
    choices = []
    for index, layers in enumerate(sorted(tied.values())):
        kinds = {methods[layer] for layer in layers}
        configurations = all_configurations(Method(kinds.pop()) if len(kinds) == 1 else Method.BLN)
        selected = draw(st.lists(st.sampled_from(configurations[:-1]), unique=True, max_size=len(configurations) - 1))
        options = dict.fromkeys(
            tuple(configuration.restricted_to_statistics_of(Method(methods[layer])) for layer in layers)
            for configuration in configurations
            if configuration in selected or configuration == configurations[-1]
        )
        choices.append(LayerConfigurationOptions(f"choice {index}", tuple(layers), tuple(options)))
    return ConfigurationSpace(tuple(f"layer {layer}" for layer in range(len(methods))), tuple(choices))
