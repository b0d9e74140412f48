"""The pass of all training mini-batches for the population `frozen`: several at once against each alone.

Networks with BLN and random images, one thread. Both are measured in turn in one process, several times; the ratios are
those of a turn. On a GPU the result is `population_gpu`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from bench.support.reporting import finish, make_parser, spread
from bench.support.timing import ratios, time_in_turn
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.models import build_model
from bln_search.norms import BLN

CLASSES = 10
SETTINGS: dict[str, tuple[str, tuple[int, ...], int, int, dict[str, Any]]] = {
    "lenet, m = 1": ("lenet", (3, 32, 32), 1, 1000, {}),
    "lenet, m = 4": ("lenet", (3, 32, 32), 4, 2000, {}),
    "lenet, m = 25": ("lenet", (3, 32, 32), 25, 2500, {}),
    "mlp 784-1000-1000-10, m = 4": ("mlp", (1, 28, 28), 4, 4000, {"widths": [1000, 1000]}),
    "resnet8, m = 4": ("resnet8", (3, 32, 32), 4, 800, {}),
    "resnet8, m = 25": ("resnet8", (3, 32, 32), 25, 1000, {}),
}
"""Model, shape of an image, mini-batch size, number of images and options of the model."""


def measure_setting(name: str, device: str, turns: int) -> dict[str, Any]:
    """Return milliseconds of a mini-batch each alone and several at once, and their ratio."""
    model, shape, size, images, options = SETTINGS[name]
    network = build_model(model, shape, CLASSES, partial(BLN, batch_size=size), seed=0, options=options).to(device)
    inputs = torch.randn(images, *shape, generator=torch.Generator().manual_seed(0)).to(device)
    batches = [inputs[start : start + size] for start in range(0, images, size)]
    works = {
        name: partial(collect_moments_with_frozen_weights, network, batches, several_at_once=name == "at_once")
        for name in ("alone", "at_once")
    }
    milliseconds = {
        name: [1000 * value / len(batches) for value in values]
        for name, values in time_in_turn(works, turns, device).items()
    }
    return {
        "speedup": spread(ratios(milliseconds["alone"], milliseconds["at_once"])),
        "milliseconds_alone": spread(milliseconds["alone"]),
        "milliseconds_at_once": spread(milliseconds["at_once"]),
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    turns = 3 if options.quick else 7
    measured = {}
    for name in SETTINGS:
        measured[name] = measure_setting(name, options.device, turns)
        print(f"{name:28} {measured[name]['speedup']['median']:6.2f} times", flush=True)
    file = "population" if options.device == "cpu" else "population_gpu"
    finish(file, {"settings": measured, "turns": turns}, save=options.save, device=options.device)


if __name__ == "__main__":
    main()
