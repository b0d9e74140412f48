"""Handwriting: LSTM layers with a soft window over a text predict the track of a pen that writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.data import InputField, InputShape, StructuredInputs
from bln_search.models import NormLayerConstructor
from bln_search.models.recurrent import NormalizedLSTM, TimeStep
from bln_search_papers.ln.handwriting.mixture import PARAMETERS, PointDensity, make_point_density
from bln_search_papers.ln.handwriting.window import SoftWindow
from bln_search_papers.ln.mnist_pen_tracks import CHARACTERS

_POINT = 3  # numbers of a point: offset to the right, offset upwards, end of a stroke


class Handwriting(nn.Module):
    """Predicts each point of a track from the points before it and a text, and returns the track's loss.

        h¹_t = LSTM(h¹_{t-1}, [x_t, w_{t-1}]),    w_t = window(h¹_t, text)
        hⁿ_t = LSTM(hⁿ_{t-1}, [x_t, w_t, hⁿ⁻¹_t]),    ŷ_t = W [h¹_t, …, hᴺ_t] + b
        loss = −Σ_t log p(x_{t+1} | ŷ_t)

    x_1 is the end of a stroke without an offset, so that the loss is that of all points. States, w_0 and the places of
    the window start at zero. There is normalization inside the cells of all layers; a point that is absent is in no
    statistic and in no loss.

    Args:
        input_shape: `points` (T, 3), `present` (T,) and `text` (U,).
        classes: not used; a track has no class.
        norm: makes a normalization layer for a number of features.
        widths: units of the LSTM layers.
        windows: number of Gaussians of the window.
        mixtures: number of Gaussians of the density of a point.
        gain: initial value of γ; None for 1.

    Input: points (N, T, 3), whether they are present (N, T), and characters (N, U). Output: (N, 1), nats.
    Source: Graves 2013, Generating Sequences With Recurrent Neural Networks, section 5; normalization: Ba, Kiros &
    Hinton 2016, section 6.5, Eq. 20-22.
    """

    def __init__(
        self,
        input_shape: InputShape,
        classes: int,  # noqa: ARG002 - the argument of every model
        norm: NormLayerConstructor,
        widths: Sequence[int] = (400, 400, 400),
        windows: int = 10,
        mixtures: int = 20,
        gain: float | None = None,
    ) -> None:
        super().__init__()
        points, text = _require_points_and_text(input_shape)
        if min(widths, default=0) < 1:
            raise ModelError(f"handwriting needs at least one layer, each with at least one unit, not {list(widths)}")
        self.glorot = True
        self.steps, self.mixtures = points.shape[0], mixtures
        make_layer = partial(NormalizedLSTM, norm=norm, steps=self.steps, gain=1.0 if gain is None else gain)
        given = _POINT + CHARACTERS
        self.first = make_layer(given, widths[0])
        self.further = nn.ModuleList(make_layer(given + below, units) for below, units in pairwise(widths))
        self.window = SoftWindow(widths[0], windows, text.shape[0] / self.steps)
        self.density = nn.Linear(sum(widths), PARAMETERS * mixtures + 1)

    def forward(self, inputs: StructuredInputs | Mapping[str, Any]) -> Tensor:
        """Return the negative log-likelihood of each track, (N, 1), in nats."""
        points, present = inputs["points"], inputs["present"]
        losses = self._predict(points, present, inputs["text"]).negative_log_likelihood(points)
        return torch.where(present, losses, torch.zeros_like(losses)).sum(1, keepdim=True)

    def _predict(self, points: Tensor, present: Tensor, text: Tensor) -> PointDensity:
        """Return the densities of all points, with the axes (N, T)."""
        start = _make_first_input(points[:, 0])
        before = torch.cat([start.unsqueeze(1), points[:, :-1]], 1)
        states, windows = self._read_text(before, present, _encode_characters(text, points.dtype))
        given = torch.cat([before, windows], 2)
        hidden = [states]
        for layer in self.further:
            hidden.append(layer(torch.cat([given, hidden[-1]], 2), present))
        return make_point_density(self.density(torch.cat(hidden, 2)), self.mixtures)

    def _read_text(self, before: Tensor, present: Tensor, characters: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of the first layer (N, T, units) and what the window reads (N, T, CHARACTERS)."""
        state, places = self.first.initial_state(before), self.window.initial_places(before)
        window = characters.new_zeros(characters.shape[0], CHARACTERS)
        states, windows = [], []
        for step in range(before.shape[1]):
            state = self.first.advance(torch.cat([before[:, step], window], 1), state, TimeStep(step, present[:, step]))
            window, places = self.window(state[0], places, characters)
            states.append(state[0])
            windows.append(window)
        return torch.stack(states, 1), torch.stack(windows, 1)

    @torch.no_grad()
    def sample(self, text: Tensor, generator: torch.Generator, bias: float = 0.0) -> tuple[Tensor, Tensor]:
        """Draw tracks for texts, one mini-batch.

        Args:
            text: characters (N, U).
            generator: of the points.
            bias: see `PointDensity.sample`.

        Returns:
            Points (N, T, 3), and whether the window has not yet left the text there (N, T).
        """
        characters = _encode_characters(text, self.density.weight.dtype)
        point = _make_first_input(characters[:, 0, :_POINT])
        window = torch.zeros_like(characters[:, 0])
        further = [cast("NormalizedLSTM", layer) for layer in self.further]
        states = [layer.initial_state(characters) for layer in (self.first, *further)]
        places = self.window.initial_places(characters)
        points, inside = [], []
        for step in range(self.steps):
            states[0] = self.first.advance(torch.cat([point, window], 1), states[0], TimeStep(step))
            weights, _ = self.window.weigh_characters_and_move_window(states[0][0], places, text.shape[1] + 1)
            window, places = self.window(states[0][0], places, characters)
            for index, layer in enumerate(further, start=1):
                given = torch.cat([point, window, states[index - 1][0]], 1)
                states[index] = layer.advance(given, states[index], TimeStep(step))
            outputs = self.density(torch.cat([state[0] for state in states], 1))
            point = make_point_density(outputs, self.mixtures).sample(generator, bias)
            points.append(point)
            inside.append(weights.argmax(1) < text.shape[1])
        return torch.stack(points, 1), torch.stack(inside, 1).cumprod(1).bool()


def _make_first_input(example: Tensor) -> Tensor:
    """Return x_1 (N, 3), the end of a stroke without an offset, like an example (N, 3)."""
    return torch.cat([torch.zeros_like(example[:, 1:]), torch.ones_like(example[:, :1])], 1)


def _encode_characters(text: Tensor, dtype: torch.dtype) -> Tensor:
    """Return one-hot characters (N, U, CHARACTERS)."""
    return F.one_hot(text, CHARACTERS).to(dtype)


def _require_points_and_text(shape: InputShape) -> tuple[InputField, InputField]:
    """Return the fields of points and text. Raises ModelError if there are others."""
    if (
        isinstance(shape, tuple)
        or set(shape) != {"points", "present", "text"}
        or shape["points"].shape[1:] != (_POINT,)
    ):
        raise ModelError(
            "handwriting takes the points of a track, which of them are present, and a text: choose the data "
            "mnist_pen_tracks"
        )
    return shape["points"], shape["text"]
