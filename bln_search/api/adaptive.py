"""Make a network choose the sources of its statistics online."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from numbers import Integral

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.adaptation.adaptive_network import SMALLEST_MINI_BATCH, AdaptiveNetwork
from bln_search.api.arguments import check_network_is_module, get_network_device, parse_flag
from bln_search.api.inputs.adapters import BatchAdapter
from bln_search.api.inputs.loaders import Loader, RoleLoader, check_iterators_read_once
from bln_search.api.progress_lines import ProgressLines
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import DataError
from bln_search.core.row_menu import DEFAULT_MENU, parse_menu
from bln_search.data.inputs import Inputs, can_slice_examples, concatenate_inputs, have_same_form
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.adapted_network import Forward
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.norms.network.stored_values import missing_stored_statistics

_POPULATION = InferenceConfiguration("TTTT")
_MARGIN = 3.0


def adaptive(
    network: nn.Module,
    train_loader: Loader,
    menu: Sequence[str] = DEFAULT_MENU,
    *,
    batch_size: int | None = None,
    mini_batches: int = 50,
    alarm: int = 3,
    forward: Forward | None = None,
    progress: bool = True,
) -> AdaptiveNetwork:
    """Return a copy of a classifier that chooses the sources of its mini-batch statistics online, without labels.

    Each layer normalizes each mini-batch under the row of the menu with the least estimated risk, and keeps the
    population unless the statistics have clearly shifted. How much they differ without shift is measured on
    mini-batches of `train_loader`: the limit of a layer is the mean of the logarithm of its shift plus three standard
    deviations, and at least the estimate from the examples alone. A mini-batch needs one forward pass without shift,
    and at most two.

    Args:
        network: With normalization layers of bln-search. Layers whose configuration takes the mini-batch statistics
            from the population keep it; otherwise all get the population of `train_loader`. It is not changed.
        train_loader: Mini-batches of inputs, with or without targets, without shift. Best without augmentation.
        menu: The rows: `T`, the population, first; `B@w`, a blend with the weight w of the population (a number, or as
            in `N16`); `E@w`, moving statistics; `F`, the mini-batch.
        batch_size: Number of examples in mini-batches at inference; None for that of the loader.
        mini_batches: Number of mini-batches without shift that are measured.
        alarm: Number of mini-batches in a row with a clear shift, from which `is_alarmed` is true; a `ShiftWarning` is
            issued once.
        forward: Calls the network with a mini-batch, as of `evaluate_configurations`, for the mini-batches of
            `train_loader` only.
        progress: Show a bar in a notebook, else print a line on standard error every ten seconds, after the first ten.

    Returns:
        The network in evaluation mode: it returns logits, `choices` are its last choices, and `reset()` begins a stream
        anew. Its state dict contains the limits and the state of the stream.

    Raises:
        ModelError: The network has no layer with mini-batch statistics, or does not return logits.
        DataError: The loader does not yield mini-batches, or fewer than two.
        ValueError: Another argument is invalid.

    Example:
        model = bln_search.adaptive(model, train_loader, batch_size=64)
        for inputs in stream:
            predictions = model(inputs).argmax(1)
        print(model.is_alarmed, model.choices[-1])
    """
    check_network_is_module(network, "adaptive(network, train_loader)")
    parse_menu(menu)
    size = None if batch_size is None else _parse_number("batch_size", batch_size, 2)
    count = _parse_number("mini_batches", mini_batches, 2)
    lines = ProgressLines(enabled=parse_flag("progress", progress))
    get_norms_by_name(network)
    check_iterators_read_once([("train_loader", train_loader)], readers="adaptive reads it several times")
    copied, device, loader = (
        copy_network(network).eval(),
        get_network_device(network),
        RoleLoader(train_loader, "train_loader"),
    )
    adapter = BatchAdapter(copied, forward, None, device, lines)
    with lines:
        _learn_call(adapter, loader)
        _use_population(copied, adapter, loader)
        adapting = AdaptiveNetwork(copied, menu, alarm=alarm)
        batches = _iter_in_size(adapter.iter_population_inputs(loader), size)
        _set_limits(adapting, adapter.network, islice(batches, count))
    return adapting


def _parse_number(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} is a whole number of at least {least}, not {value!r}")
    return int(value)


@torch.no_grad()
def _learn_call(adapter: BatchAdapter, loader: RoleLoader) -> None:
    """Learn from a mini-batch how the network is called: with a tensor, or with inputs by name."""
    adapter.caller.run(next(adapter.iter_population_inputs(loader)), loader.name)


def _use_population(network: nn.Module, adapter: BatchAdapter, loader: RoleLoader) -> None:
    """Take all statistics from the population, unless mini-batch statistics are taken from it already."""
    layers = get_norms_by_name(network)
    of_batch = [layer for layer in layers.values() if layer.has_batch_statistics]
    if all(layer.configuration.code.startswith("TT") and not missing_stored_statistics(layer) for layer in of_batch):
        return
    with adapter.caller.explained_failures(loader.name):
        moments = collect_moments_with_frozen_weights(adapter.network, adapter.iter_population_inputs(loader))
    estimates = {str(PopulationEstimate.FROZEN): moments}
    populations = compute_populations_of_layers(layers, estimates, Correction.BESSEL, per_slot=False)
    for layer, of_layer in populations.items():
        layer.configure(_POPULATION, of_layer[PopulationEstimate.FROZEN])


def _iter_in_size(parts: Iterator[Inputs], size: int | None) -> Iterator[Inputs]:
    """Yield complete mini-batches of `size` examples; None for mini-batches as they are."""
    waiting: Inputs | None = None
    for part in parts:
        if size is None:
            yield part
            continue
        if not can_slice_examples(part) or (waiting is not None and not have_same_form(waiting, part)):
            raise DataError(
                "batch_size needs mini-batches of tensors of one shape, with the examples on the first axis: leave it "
                "out, and give a train_loader with mini-batches of that size"
            )
        waiting = part if waiting is None else concatenate_inputs([waiting, part])
        while len(waiting) >= size:
            yield waiting[:size]
            waiting = waiting[size:]


@torch.no_grad()
def _set_limits(adapting: AdaptiveNetwork, network: nn.Module, batches: Iterable[Inputs]) -> None:
    """Set the limits of all layers and the shares of the classes, from mini-batches without shift.

    Args:
        adapting: Whose layers are set.
        network: Calls the network inside of it.
        batches: Mini-batches without shift.
    """
    shifts: dict[str, list[Tensor]] = {name: [] for name in adapting.layers}
    shares: list[Tensor] = []
    sizes: list[int] = []
    for layer in adapting.layers.values():
        layer.smallest.fill_(2)

    for inputs in batches:
        logits, chosen = adapting.run_pass(partial(network, inputs))
        shares.append(F.softmax(logits, 1).mean(0))
        sizes.append(len(logits))
        for name, choice in chosen.items():
            shifts[name].append(choice.shift)
    if len(sizes) < 2:
        raise DataError(
            f"train_loader has {len(sizes)} mini-batches of the size at inference, and limits need at least two: give "
            "more examples, or a smaller batch_size"
        )
    for name, layer in adapting.layers.items():
        layer.smallest.fill_(min(SMALLEST_MINI_BATCH, max(2, *sizes)))
        if len(shifts[name]) > 1:
            logarithms = torch.stack(shifts[name]).clamp_min(torch.finfo(layer.limit.dtype).tiny).log()
            layer.limit.copy_((logarithms.mean() + _MARGIN * logarithms.std()).exp().clamp_min(1))
    adapting.class_shares = torch.stack(shares).mean(0)
