"""A network that chooses the sources of its mini-batch statistics online, without labels."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bln_search.adaptation.choosing_layer import ChoosingLayer, LayerChoice, MenuWeights
from bln_search.adaptation.class_concentration import are_classes_balanced, move_concentration
from bln_search.adaptation.method import check_logits
from bln_search.core.errors import ExportError, ModelError, ShiftWarning
from bln_search.core.row_menu import DEFAULT_MENU, MenuRow, parse_menu
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.network.stored_values import missing_stored_statistics
from bln_search.norms.normalization import Normalization

SMALLEST_MINI_BATCH = 8
"""Below it the variance between examples is too uncertain for a limit that was not measured."""

_KEPT_CHOICES = 1000


@dataclass(frozen=True)
class MiniBatchChoice:
    """What was chosen for a mini-batch.

    Attributes:
        shift: The largest shift of a layer, relative to its limit: above 1 the shift is clear.
        concentration: Of the predicted classes over the last mini-batches: 0 for the classes of the source, 1 for one
            class.
        passes: Forward passes.
        rows: Number of layers by row of the menu.
    """

    shift: float
    concentration: float
    passes: int
    rows: dict[str, int]


class AdaptiveNetwork(nn.Module):
    """A network whose layers choose the row of a menu for each mini-batch, without labels.

    A cautious pass counts the mini-batch as one example (see `choosing_layer`), and predicts the classes. If no layer
    leaves the population, or if few classes are predicted (see `class_concentration`), its outputs count. Otherwise the
    shift is clear and the mini-batch is balanced: a second pass counts its effective number of examples.

    Mini-batches whose statistics are not finite are normalized by the population, and change no state.

    Args:
        network: With normalization layers in evaluation mode, which take their mini-batch statistics from the
            population. Its layers are replaced.
        menu: The rows, T first.
        alarm: Number of mini-batches in a row with a clear shift, from which `is_alarmed` is true and a `ShiftWarning`
            is issued once.

    Attributes:
        choices: The last 1000 choices.

    Raises:
        ModelError: No layer has mini-batch statistics, or one does not take them from the population.
        ValueError: The menu or the number is not possible.
    """

    concentration: Tensor
    class_shares: Tensor | None
    mini_batches: Tensor
    shifted_mini_batches: Tensor

    def __init__(self, network: nn.Module, menu: Sequence[str] = DEFAULT_MENU, *, alarm: int = 3) -> None:
        super().__init__()
        if isinstance(alarm, bool) or not isinstance(alarm, int) or alarm < 1:
            raise ValueError(f"alarm is a number of mini-batches of at least 1, not {alarm!r}")
        self.menu, self.alarm = tuple(menu), alarm
        self.layers = _replace_layers(network, parse_menu(menu))
        self.network = network if not isinstance(network, Normalization) else self.layers[""]
        self.choices: deque[MiniBatchChoice] = deque(maxlen=_KEPT_CHOICES)
        self._always_passes_twice = False
        self._has_warned = False
        like = next(iter(self.layers.values())).limit
        self.register_buffer("concentration", torch.zeros_like(like))
        self.register_buffer("class_shares", None)
        for name in ("mini_batches", "shifted_mini_batches"):
            self.register_buffer(name, torch.zeros_like(like, dtype=torch.long))
        self.eval()

    @property
    def is_alarmed(self) -> bool:
        """Whether the last mini-batches, `alarm` in a row, had a clear shift."""
        return int(self.shifted_mini_batches) >= self.alarm

    @torch.no_grad()
    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Return the logits (m, K) of the next mini-batch.

        Raises:
            ModelError: The network is in training mode, or does not return logits.
        """
        if self.training:
            raise ModelError("a network that chooses its statistics online predicts in evaluation mode: call eval()")

        def predict() -> Any:
            return self.network(*map(_copy, inputs), **{name: _copy(x) for name, x in named.items()})

        logits, chosen = self.run_pass(predict)
        is_finite = _are_finite(logits, chosen)
        concentration = move_concentration(
            self.concentration, logits, self.class_shares, is_first=self.mini_batches == 0
        )
        shift = torch.stack([each.shift for each in chosen.values()]).max()
        goes_on = is_finite & are_classes_balanced(concentration, logits) & (shift > 1)
        passes = 1
        if self._always_passes_twice or bool(goes_on):
            passes = 2
            second, second_chosen = self.run_pass(predict, concentration)
            logits = torch.where(goes_on, second, logits)
            chosen = {name: _select(goes_on, second_chosen[name], each) for name, each in chosen.items()}
            is_finite = is_finite & _are_finite(logits, chosen)
        for name, choice in chosen.items():
            self.layers[name].keep(choice, is_finite)
        self._keep(is_finite, concentration, shift)
        if not self._always_passes_twice:
            self._log(float(shift), passes, [int(each.row) for each in chosen.values()])
        return logits

    def to_program(self, inputs: Tensor) -> torch.export.ExportedProgram:
        """Return a program of torch.export, which runs without bln-search. Its buffers contain the state of a stream.

        A program has no control flow: it computes both passes for each mini-batch, and takes the outputs of the one
        that counts. It begins at the first mini-batch of a stream; the network is not changed.

        Args:
            inputs: A few examples (n, ...); a program takes mini-batches of any size.

        Raises:
            ExportError: torch cannot trace the network.

        Example:
            torch.export.save(network.to_program(inputs), "chooser.pt2")
            program = torch.export.load("chooser.pt2").module()
            logits = program(inputs)
        """
        traced = copy_network(self).eval()
        traced.reset()
        traced._always_passes_twice = True
        example = inputs[:1].repeat(2, *[1] * (inputs.ndim - 1))
        shapes = {"inputs": ({0: torch.export.Dim("batch", min=1)},)}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return torch.export.export(traced, (example,), dynamic_shapes=shapes)
            except Exception as error:
                message = str(error).partition("\n")[0]
                raise ExportError(
                    f"torch cannot trace this network: {message}. Its forward pass must consist of tensor operations "
                    "that are the same for every mini-batch size"
                ) from error

    def run_pass(
        self, predict: Callable[[], Any], concentration: Tensor | None = None
    ) -> tuple[Tensor, dict[str, LayerChoice]]:
        """Return logits (m, K) of a forward pass, and the choices of the layers that it reached. No state changes.

        Args:
            predict: Calls the network with a mini-batch.
            concentration: Of the predicted classes; None for a cautious pass.

        Raises:
            ModelError: The network does not return logits, or the pass reaches no layer.
        """
        for layer in self.layers.values():
            layer.concentration, layer.chosen = concentration, None
        logits = check_logits(predict())
        chosen = {name: layer.chosen for name, layer in self.layers.items() if layer.chosen is not None}
        for layer in self.layers.values():
            layer.concentration, layer.chosen = None, None
        if not chosen:
            raise ModelError("the network reached no normalization layer that chooses its statistics")
        return logits, chosen

    def reset(self) -> None:
        """Return to the state before the first mini-batch."""
        for layer in self.layers.values():
            layer.reset()
        for value in (self.concentration, self.mini_batches, self.shifted_mini_batches):
            value.zero_()
        self.choices.clear()
        self._has_warned = False

    def _keep(self, is_finite: Tensor, concentration: Tensor, shift: Tensor) -> None:
        counted = torch.where(shift > 1, self.shifted_mini_batches + 1, 0)
        self.concentration.copy_(torch.where(is_finite, concentration, self.concentration))
        self.shifted_mini_batches.copy_(torch.where(is_finite, counted, self.shifted_mini_batches))
        self.mini_batches.add_(is_finite.long())

    def _log(self, shift: float, passes: int, chosen: list[int]) -> None:
        rows = {label: chosen.count(number) for number, label in enumerate(self.menu) if number in chosen}
        self.choices.append(MiniBatchChoice(shift, float(self.concentration), passes, rows))
        if self.is_alarmed and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the inputs have shifted: the statistics of {self.alarm} mini-batches in a row are further from those "
                "of the population than mini-batches of this size differ without shift",
                ShiftWarning,
                stacklevel=5,
            )


def _replace_layers(network: nn.Module, rows: Sequence[MenuRow]) -> dict[str, ChoosingLayer]:
    """Replace each layer with mini-batch statistics; return the new ones by name."""
    by_name = {name: layer for name, layer in get_norms_by_name(network).items() if layer.has_batch_statistics}
    if not by_name:
        raise ModelError("no normalization layer of this network has mini-batch statistics: there is nothing to choose")
    weights = MenuWeights(rows).to(next(iter(by_name.values())).weight.device)
    new: dict[nn.Module, ChoosingLayer] = {}
    for name, layer in by_name.items():
        if not layer.configuration.code.startswith("TT") or missing_stored_statistics(layer):
            raise ModelError(
                "a chooser starts from the mini-batch statistics of the population, and the layer "
                f"{name} ({layer.configuration}) does not, or has no values: use the configuration T"
            )
        new[layer] = ChoosingLayer(layer, weights, SMALLEST_MINI_BATCH)
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if module in new and name:
            network.set_submodule(name, new[module])
    return {name: new[layer] for name, layer in by_name.items()}


def _copy(value: Any) -> Any:
    """Return a copy of inputs, which a network may overwrite."""
    return value.clone() if hasattr(value, "clone") else value


def _are_finite(logits: Tensor, chosen: dict[str, LayerChoice]) -> Tensor:
    values = [value for each in chosen.values() for value in (each.mean, each.deviation)]
    return torch.stack([value.isfinite().all() for value in (logits, *values)]).all()


def _select(is_second: Tensor, second: LayerChoice, first: LayerChoice) -> LayerChoice:
    return LayerChoice(
        *(
            torch.where(is_second, getattr(second, name), getattr(first, name))
            for name in ("row", "shift", "mean", "deviation")
        )
    )
