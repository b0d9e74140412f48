"""The window over a text: it moves forwards only, and over the whole text once by default."""

from __future__ import annotations

import torch
from torch import nn

from bln_search_papers.ln.handwriting.window import SoftWindow


def test_a_window_without_weights_passes_over_the_text_once():
    window = SoftWindow(units=2, gaussians=3, step=4 / 20)
    for parameter in window.parameters():
        nn.init.zeros_(parameter)
    hidden, characters = torch.zeros(1, 2), torch.eye(4).unsqueeze(0)
    places, read = window.initial_places(hidden), []
    for _ in range(20):
        weights, places = window(hidden, places, characters)
        read.append(int(weights.argmax()))
    torch.testing.assert_close(places, torch.full((1, 3), 4.0))
    assert sorted(set(read)) == [0, 1, 2, 3]
    assert read == sorted(read)


def test_places_never_move_backwards_and_stay_finite():
    window = SoftWindow(units=1, gaussians=2, step=0.1)
    nn.init.normal_(window.parameters_of_gaussians.weight, generator=torch.Generator().manual_seed(0))
    places = window.initial_places(torch.zeros(4, 1))
    for hidden in (-1e3, -1.0, 0.0, 1.0, 1e3):
        read, moved = window(torch.full((4, 1), hidden), places, torch.ones(4, 3, 1))
        assert (moved >= places).all()
        assert torch.isfinite(moved).all()
        assert torch.isfinite(read).all()
        places = moved
