"""Networks of real libraries under every configuration in one pass: are the losses those of a plain loop?

Networks of torchvision, segmentation-models-pytorch and torch with random weights, after passes in training mode for
their running statistics, are converted and evaluated in one pass, in single and in double precision. Losses under each
row of the table are compared with a plain loop: the row applied to a copy of the network, a forward pass of each
mini-batch, cross-entropy. So are those of the best per-layer configuration that a short search finds. Rows that are
reported as ill-conditioned are compared with the plain loop in double precision. Difference: |a - b| / (1 + |b|).
Times are processor time of one thread; two processes run at once.

Needs `pip install --constraint constraints.txt '.[train,zoo]'`. The index has torchvision compiled for torch with CUDA
only; beside torch for CPUs its compiled operations do not load, which these networks do not need
(`bench.zoo_networks.load_torchvision`).
"""

from __future__ import annotations

import multiprocessing
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from bench.reporting import arguments, finish, spread
from bench.zoo_networks import NETWORKS, Examples, Subject, images, labeled_pixels
from bln_search.api.apply import Choice, apply_configuration
from bln_search.api.convert import convert
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.layer_search import search_layers
from bln_search.api.ranked import RankedConfiguration, RankedConfigurations
from bln_search.core.records import EvaluationKey

PROCESSES = 2
BATCHES, SHORT = 4, 2
"""Mini-batches whose losses are compared; in double precision and by the per-layer search."""

FIRST, PAIRS = 8, 2
MORE, MORE_SEQUENCES = 16, 384
"""The one pass is timed over FIRST mini-batches and over MORE beyond them, the plain loop over MORE, PAIRS times. Those
of sequences are faster."""

EVALUATIONS = 24
"""Evaluations of each step of the per-layer search."""

QUICK = ("ViT, small", "GRU with LN and BN", "ShuffleNetV2 ×0.5")
ALSO_BLN = ("ResNet-18", "Swin, small", "MaxViT, small", "GRU with LN and BN", "TransformerEncoder, padding")

Losses = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Setting:
    """Setting of a network. pixels: side of an image. batch_size: in training and inference."""

    network: str
    method: str
    batch_size: int
    pixels: int


@dataclass(frozen=True)
class Prepared:
    """A converted network and its data.

    layers: how many there were of which kind. changed: the difference of its answers by the conversion.
    """

    network: nn.Module
    training: list[Examples]
    validation: list[Examples]
    layers: str
    changed: float | None

    def in_double(self) -> Prepared:
        """Return a copy in double precision."""
        validation = [(cast(x, torch.float64), y) for x, y in self.validation]
        return Prepared(deepcopy(self.network).double(), self.training, validation, self.layers, self.changed)


def settings(*, quick: bool) -> Iterator[Setting]:
    """Return the settings: small mini-batches of small images, larger ones, and networks converted to BLN."""
    for network in QUICK if quick else NETWORKS:
        yield Setting(network, "same", 4, 32)
        yield Setting(network, "same", 8, 64)
        if network in ALSO_BLN:
            yield Setting(network, "bln", 8, 64)


def prepared(setting: Setting, dtype: torch.dtype) -> Prepared:
    """Build a network, run it in training mode and convert it; return it with training and validation data."""
    torch.manual_seed(0)
    subject = NETWORKS[setting.network]
    network = subject.make(setting.pixels).to(dtype)
    layers = kinds(network)
    training, validation = (drawn(subject, setting, BATCHES, dtype) for _ in range(2))
    inputs, _ = validation[0]
    with torch.no_grad():
        for x, _ in training:
            network.train()(x)
        scale_head(network.eval(), inputs)
        before = network(inputs).numpy()
        converted(network, setting)
        after = network.eval()(inputs).numpy()
        scale_head(network, inputs)
    return Prepared(
        network, training, validation, layers, relative(after, before) if setting.method == "same" else None
    )


def scale_head(network: nn.Module, inputs: Tensor) -> None:
    """Scale the last layer so that the answers deviate by one: small ones would hide differences of losses."""
    head = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1]
    factor = 1 / float(network(inputs).std())
    for parameter in head.parameters():
        parameter.mul_(factor)


def converted(network: nn.Module, setting: Setting) -> None:
    """Convert a network in place. Ignores the warning that converted networks with running statistics need training."""
    with warnings.catch_warnings():
        if setting.method == "bln":
            warnings.simplefilter("ignore", UserWarning)
        convert(network, method=setting.method, batch_size=setting.batch_size)


def kinds(network: nn.Module) -> str:
    """Return the number of normalization layers by kind."""
    names = {nn.BatchNorm1d: "BN", nn.BatchNorm2d: "BN", nn.LayerNorm: "LN"}
    found = Counter(names[type(module)] for module in network.modules() if type(module) in names)
    return " + ".join(f"{count} {name}" for name, count in sorted(found.items()))


def drawn(subject: Subject, setting: Setting, batches: int, dtype: torch.dtype) -> list[Examples]:
    """Return mini-batches of random examples."""
    inputs, targets = subject.draw(setting.batch_size * batches, setting.pixels)
    size = setting.batch_size
    return list(zip(torch.split(cast(inputs, dtype), size), torch.split(targets, size), strict=True))


def cast(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return inputs in another precision; token ids are unchanged."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy (n,); the mean over pixels if each has a class."""
    return F.cross_entropy(outputs, targets, reduction="none").reshape(len(targets), -1).mean(1)


def score(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return losses and correctness: most pixels are right."""
    right = (outputs.argmax(1) == targets).reshape(len(targets), -1)
    return losses_of(outputs, targets), right.double().mean(1) > 0.5


@torch.no_grad()
def plain_losses(network: nn.Module, choice: Choice, batches: Iterable[Examples]) -> Losses:
    """Return losses of single examples under one configuration by a plain loop; `network` keeps the configuration."""
    apply_configuration(network, choice).eval()
    found: Losses = torch.cat([losses_of(network(x), y) for x, y in batches]).numpy()
    return found


def relative(found: Losses, expected: Losses) -> float:
    """Return the largest |found - expected| / (1 + |expected|); equal values, and two NaN, do not differ."""
    a, b = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(a - b) / (1 + np.abs(b))).max(initial=0.0))


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the warnings inside the block."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    said += [str(one.message) for one in caught]


_LABEL = re.compile(r"([TFM-]{4})(?: (frozen|epoch|moving|memory))?")


def ill_conditioned(said: Iterable[str]) -> set[str]:
    """Return the rows that warnings call ill-conditioned, as in `TF-- moving`."""
    texts = [text for text in said if text.startswith("ill-conditioned")]
    return {" ".join(filter(None, found)) for text in texts for found in _LABEL.findall(text)}


def one_pass(subject: Prepared, batches: Sequence[Examples]) -> RankedConfigurations:
    """Return the leaderboard."""
    return evaluate_configurations(subject.network, subject.training, batches, score=score)


def losses_in(ranked: RankedConfigurations, choice: RankedConfiguration) -> Losses:
    """Return losses of single examples under a row of the leaderboard."""
    row = choice.row
    key = EvaluationKey(row.configuration, row.estimate, row.batch_size, ranked.board.ranked_on)
    return ranked.outcomes[key].losses


def compare_rows(subject: Prepared, rounding: Iterable[str] = ()) -> dict[str, Any]:
    """Rows of the table of the one pass against the plain loop.

    rounding: rows that are known to be ill-conditioned; they and those found are distinguished from the others.
    """
    with noted() as said:
        ranked = one_pass(subject, subject.validation)
    named = ill_conditioned(said) | set(rounding)
    means, examples, apart = [0.0], [0.0], {}
    for choice in ranked:
        label = " ".join(filter(None, (str(choice.configuration), choice.row.estimate)))
        beside = subject.in_double() if label in named else subject
        found = losses_in(ranked, choice)
        plain = plain_losses(deepcopy(beside.network), choice, beside.validation)
        if label in named:
            apart[label] = relative(found, plain)
        else:
            means.append(relative(found.mean(dtype=np.float64), plain.mean(dtype=np.float64)))
            examples.append(relative(found, plain))
    return {"rows": len(ranked), "mean_loss": max(means), "losses": max(examples), "ill_conditioned": apart}


def compare_search(subject: Prepared) -> dict[str, Any]:
    """Compare the best per-layer configuration of a short search with the plain loop."""
    batches = subject.validation[:SHORT]
    with noted() as said:
        layered = search_layers(
            subject.network, subject.training, batches, search="coordinate", evaluations=EVALUATIONS, score=score
        )
    plain = plain_losses(deepcopy(subject.network), layered.best, batches)
    return {
        "traced": not any("one by one" in text for text in said),
        "losses": relative(layered.record.outcomes[0].losses, plain),
        "evaluations": layered.record.evaluations,
    }


def times(subject: Prepared, batches: Sequence[Examples]) -> dict[str, Any]:
    """Return the processor time of the plain loop over the one pass, without and with its one-time cost.

    ratio: over further mini-batches. whole: over all of these mini-batches, as the function is called.
    """
    ratios, wholes = [], []
    for _ in range(PAIRS):
        first, _ = timed(partial(one_pass, subject, batches[:FIRST]))
        every, ranked = timed(partial(one_pass, subject, batches))
        plain, _ = timed(partial(plain_loop, subject.network, ranked, batches[FIRST:]))
        ratios.append(plain / (every - first))
        wholes.append(plain / len(batches[FIRST:]) * len(batches) / every)
    return {"ratio": spread(ratios), "whole": spread(wholes), "batches": len(batches)}


def plain_loop(network: nn.Module, ranked: RankedConfigurations, batches: Sequence[Examples]) -> None:
    """Evaluate all rows one after another."""
    for choice in ranked:
        plain_losses(network, choice, batches)


def timed(work: partial[Any]) -> tuple[float, Any]:
    """Return processor seconds and result of a call; its warnings were checked before."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = work()
    return time.process_time() - start, result


def described(setting: Setting) -> dict[str, Any]:
    """Describe a setting; sequences have no pixels."""
    subject = NETWORKS[setting.network]
    pixels = setting.pixels if subject.draw in (images, labeled_pixels) else None
    return {**vars(setting), "pixels": pixels, "library": subject.library}


def measured(setting: Setting) -> dict[str, Any]:
    """Return all measurements of a setting."""
    torch.set_num_threads(1)
    single, double = (prepared(setting, dtype) for dtype in (torch.float32, torch.float64))
    double = replace(double, validation=double.validation[:SHORT])  # double precision is slow
    rows = compare_rows(single)
    entry = {
        **described(setting),
        "layers": single.layers,
        "changed_by_conversion": single.changed,
        "changed_by_conversion_float64": double.changed,
        "float32": rows,
        "float64": compare_rows(double, rows["ill_conditioned"]),
        "search": {"float32": compare_search(single)},
    }
    if setting.batch_size == 4:
        entry["search"]["float64"] = compare_search(double)
    elif setting.method == "same":
        batches = FIRST + (MORE if entry["pixels"] else MORE_SEQUENCES)
        entry["time"] = times(single, drawn(NETWORKS[setting.network], setting, batches, torch.float32))
    return entry


def attempted(setting: Setting) -> dict[str, Any]:
    """Return the same, or the error if the network is rejected or fails."""
    try:
        return measured(setting)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a network is a result of this benchmark
        return {**described(setting), "failed": f"{type(error).__name__}: {error}"}


def summary_line(entry: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    start = f"{entry['network']:27} {entry['method']:5} m {entry['batch_size']}  "
    if "failed" in entry:
        return f"{start}{entry['failed']}"
    single, double = entry["float32"], entry["float64"]
    searched = entry["search"]["float32"]
    time_of = f"  {entry['time']['ratio']['median']:5.2f}" if "time" in entry else ""
    return (
        f"{start}{entry['layers']:14} {single['rows']:2} rows  {single['mean_loss']:.0e} {single['losses']:.0e}  "
        f"{double['losses']:.0e}  ill-conditioned {len(single['ill_conditioned'])}  "
        f"search {'traced' if searched['traced'] else 'one by one'} {searched['losses']:.0e}{time_of}"
    )


def summary(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of all networks."""
    done = [entry for entry in entries if "failed" not in entry]
    searched = {
        dtype: [entry["search"][dtype] for entry in done if dtype in entry["search"]]
        for dtype in ("float32", "float64")
    }
    return {
        "networks": len({entry["network"] for entry in entries}),
        "failed": [entry["network"] for entry in entries if "failed" in entry],
        "rows": sum(entry["float32"]["rows"] for entry in done),
        "ill_conditioned_rows": sum(len(entry["float32"]["ill_conditioned"]) for entry in done),
        "max_relative_difference": max(entry["float32"]["mean_loss"] for entry in done),
        "max_relative_difference_of_losses": max(entry["float32"]["losses"] for entry in done),
        "max_relative_difference_float64": max(entry["float64"]["losses"] for entry in done),
        "max_relative_difference_of_search": max(one["losses"] for one in searched["float32"]),
        "max_relative_difference_of_search_float64": max(one["losses"] for one in searched["float64"]),
    }


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    entries = []
    print("network, method, mini-batch, layers, rows; differences in single precision of mean losses and of losses, in")
    print("double precision; ill-conditioned rows; per-layer search; times faster than the plain loop")
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        for entry in pool.map(attempted, settings(quick=options.quick)):
            print(summary_line(entry), flush=True)
            entries.append(entry)
    sizes = {"batches": BATCHES, "short_batches": SHORT, "evaluations": EVALUATIONS}
    versions = {name: version(name) for name in ("torchvision", "segmentation-models-pytorch")}
    finish(
        "zoo",
        {**summary(entries), **sizes, "pairs": PAIRS, "versions": versions, "entries": entries},
        save=options.save,
    )


if __name__ == "__main__":
    main()
