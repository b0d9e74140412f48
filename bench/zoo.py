"""Losses of library networks under every configuration: one pass compared with a plain loop.

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

from bench.reporting import finish, make_parser, spread
from bench.zoo_networks import NETWORKS, Examples, Subject, images, labeled_pixels
from bln_search.api.apply import Choice, apply_configuration
from bln_search.api.arguments import MethodName
from bln_search.api.convert import convert
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.layer_search import search_layers
from bln_search.api.ranked import RankedConfigurations
from bln_search.api.ranked_row import RankedConfiguration
from bln_search.core.records import EvaluationKey

PROCESSES = 2
BATCHES, FEW_BATCHES = 4, 2
"""Numbers of mini-batches whose losses are compared: in single precision, and in double precision and by the search."""

FIRST_BATCHES, PAIRS = 8, 2
FURTHER_BATCHES, FURTHER_SEQUENCES = 16, 384
"""The one pass is timed over FIRST_BATCHES mini-batches and over FURTHER_BATCHES beyond them, the plain loop over
FURTHER_BATCHES, PAIRS times. Sequences are faster, so there are more of them."""

EVALUATIONS = 24
"""Evaluations of each step of the per-layer search."""

QUICK = ("ViT, small", "GRU with LN and BN", "ShuffleNetV2 ×0.5")
ALSO_BLN = ("ResNet-18", "Swin, small", "MaxViT, small", "GRU with LN and BN", "TransformerEncoder, padding")

Losses = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Setting:
    """Setting of a network.

    Attributes:
        network: Name of the network.
        method: Method of `convert`.
        batch_size: Mini-batch size in training and inference.
        pixels: Side of an image.
    """

    network: str
    method: MethodName
    batch_size: int
    pixels: int


@dataclass(frozen=True)
class Prepared:
    """A converted network and its data.

    Attributes:
        network: The network.
        training: Training mini-batches.
        validation: Validation mini-batches.
        layers: Number of normalization layers by kind.
        changed: Relative difference of its outputs after the conversion; None for a conversion to another method.
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


def prepare(setting: Setting, dtype: torch.dtype) -> Prepared:
    """Build a network, run it in training mode and convert it; return it with training and validation data."""
    torch.manual_seed(0)
    subject = NETWORKS[setting.network]
    network = subject.make(setting.pixels).to(dtype)
    layers = count_layers(network)
    training, validation = (draw_batches(subject, setting, BATCHES, dtype) for _ in range(2))
    inputs, _ = validation[0]
    with torch.no_grad():
        for x, _ in training:
            network.train()(x)
        scale_head(network.eval(), inputs)
        before = network(inputs).numpy()
        convert_in_place(network, setting)
        after = network.eval()(inputs).numpy()
        scale_head(network, inputs)
    return Prepared(
        network,
        training,
        validation,
        layers,
        largest_relative_difference(after, before) if setting.method == "same" else None,
    )


def scale_head(network: nn.Module, inputs: Tensor) -> None:
    """Scale the last layer to outputs of standard deviation 1: small outputs would hide differences of losses."""
    head = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1]
    factor = 1 / float(network(inputs).std())
    for parameter in head.parameters():
        parameter.mul_(factor)


def convert_in_place(network: nn.Module, setting: Setting) -> None:
    """Convert a network in place. Ignores the warning that converted networks with running statistics need training."""
    with warnings.catch_warnings():
        if setting.method == "bln":
            warnings.simplefilter("ignore", UserWarning)
        convert(network, method=setting.method, batch_size=setting.batch_size)


def count_layers(network: nn.Module) -> str:
    """Return the number of normalization layers by kind."""
    names = {nn.BatchNorm1d: "BN", nn.BatchNorm2d: "BN", nn.LayerNorm: "LN"}
    counts = Counter(names[type(module)] for module in network.modules() if type(module) in names)
    return " + ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def draw_batches(subject: Subject, setting: Setting, batches: int, dtype: torch.dtype) -> list[Examples]:
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
    """Return losses, and whether most pixels are correct."""
    correct_pixels = (outputs.argmax(1) == targets).reshape(len(targets), -1)
    return losses_of(outputs, targets), correct_pixels.double().mean(1) > 0.5


@torch.no_grad()
def plain_losses(network: nn.Module, choice: Choice, batches: Iterable[Examples]) -> Losses:
    """Return losses of single examples under one configuration by a plain loop; `network` keeps the configuration."""
    apply_configuration(network, choice).eval()
    losses: Losses = torch.cat([losses_of(network(x), y) for x, y in batches]).numpy()
    return losses


def largest_relative_difference(actual: Losses, expected: Losses) -> float:
    """Return the largest |found - expected| / (1 + |expected|); equal values, and two NaN, do not differ."""
    a, b = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return float(np.where(equal, 0.0, np.abs(a - b) / (1 + np.abs(b))).max(initial=0.0))


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the warnings inside the block."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += [str(warning.message) for warning in caught]


_LABEL = re.compile(r"([TFM-]{4})(?: (frozen|epoch|moving|memory))?")


def find_ill_conditioned(messages: Iterable[str]) -> set[str]:
    """Return the rows that warnings call ill-conditioned, as in `TF-- moving`."""
    texts = [text for text in messages if text.startswith("ill-conditioned")]
    return {" ".join(filter(None, label)) for text in texts for label in _LABEL.findall(text)}


def evaluate_in_one_pass(subject: Prepared, batches: Sequence[Examples]) -> RankedConfigurations:
    """Return the leaderboard."""
    return evaluate_configurations(subject.network, subject.training, batches, score=score)


def losses_in(ranked: RankedConfigurations, choice: RankedConfiguration) -> Losses:
    """Return losses of single examples under a row of the leaderboard."""
    row = choice.row
    key = EvaluationKey(row.configuration, row.estimate, row.batch_size, ranked.board.ranked_on)
    return ranked.outcomes[key].losses


def compare_rows(subject: Prepared, rounding: Iterable[str] = ()) -> dict[str, Any]:
    """Compare the rows of the one pass with the plain loop.

    Args:
        subject: The network.
        rounding: Rows that are known to be ill-conditioned. They, and those that warnings name, are compared in double
            precision and reported apart from the others.
    """
    with collect_warnings() as messages:
        ranked = evaluate_in_one_pass(subject, subject.validation)
    ill_conditioned_rows = find_ill_conditioned(messages) | set(rounding)
    means, examples, ill_conditioned = [0.0], [0.0], {}
    for choice in ranked:
        label = " ".join(filter(None, (str(choice.configuration), choice.row.estimate)))
        reference = subject.in_double() if label in ill_conditioned_rows else subject
        losses = losses_in(ranked, choice)
        plain = plain_losses(deepcopy(reference.network), choice, reference.validation)
        if label in ill_conditioned_rows:
            ill_conditioned[label] = largest_relative_difference(losses, plain)
        else:
            means.append(largest_relative_difference(losses.mean(dtype=np.float64), plain.mean(dtype=np.float64)))
            examples.append(largest_relative_difference(losses, plain))
    return {"rows": len(ranked), "mean_loss": max(means), "losses": max(examples), "ill_conditioned": ill_conditioned}


def compare_search(subject: Prepared) -> dict[str, Any]:
    """Compare the best per-layer configuration of a short search with the plain loop."""
    batches = subject.validation[:FEW_BATCHES]
    with collect_warnings() as messages:
        layered = search_layers(
            subject.network, subject.training, batches, search="coordinate", evaluations=EVALUATIONS, score=score
        )
    plain = plain_losses(deepcopy(subject.network), layered.best, batches)
    return {
        "traced": not any("one by one" in text for text in messages),
        "losses": largest_relative_difference(layered.record.outcomes[0].losses, plain),
        "evaluations": layered.record.evaluations,
    }


def measure_times(subject: Prepared, batches: Sequence[Examples]) -> dict[str, Any]:
    """Return the processor time of the plain loop over the one pass, without and with its one-time cost.

    `ratio` is over further mini-batches, `whole` over all mini-batches of one call.
    """
    ratios, wholes = [], []
    for _ in range(PAIRS):
        first_seconds, _ = time_call(partial(evaluate_in_one_pass, subject, batches[:FIRST_BATCHES]))
        all_seconds, ranked = time_call(partial(evaluate_in_one_pass, subject, batches))
        plain_seconds, _ = time_call(partial(plain_loop, subject.network, ranked, batches[FIRST_BATCHES:]))
        ratios.append(plain_seconds / (all_seconds - first_seconds))
        wholes.append(plain_seconds / len(batches[FIRST_BATCHES:]) * len(batches) / all_seconds)
    return {"ratio": spread(ratios), "whole": spread(wholes), "batches": len(batches)}


def plain_loop(network: nn.Module, ranked: RankedConfigurations, batches: Sequence[Examples]) -> None:
    """Evaluate all rows one after another."""
    for choice in ranked:
        plain_losses(network, choice, batches)


def time_call(work: partial[Any]) -> tuple[float, Any]:
    """Return processor seconds and result of a call; its warnings were checked before."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = work()
    return time.process_time() - start, result


def describe_setting(setting: Setting) -> dict[str, Any]:
    """Describe a setting; sequences have no pixels."""
    subject = NETWORKS[setting.network]
    pixels = setting.pixels if subject.draw in (images, labeled_pixels) else None
    return {**vars(setting), "pixels": pixels, "library": subject.library}


def measure_setting(setting: Setting) -> dict[str, Any]:
    """Return all measurements of a setting."""
    torch.set_num_threads(1)
    single, double = (prepare(setting, dtype) for dtype in (torch.float32, torch.float64))
    double = replace(double, validation=double.validation[:FEW_BATCHES])  # double precision is slow
    rows = compare_rows(single)
    entry = {
        **describe_setting(setting),
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
        batches = FIRST_BATCHES + (FURTHER_BATCHES if entry["pixels"] else FURTHER_SEQUENCES)
        entry["time"] = measure_times(single, draw_batches(NETWORKS[setting.network], setting, batches, torch.float32))
    return entry


def try_setting(setting: Setting) -> dict[str, Any]:
    """Return all measurements of a setting, or the error if the network is rejected or fails."""
    try:
        return measure_setting(setting)
    except Exception as error:  # noqa: BLE001 - an error of a network is a result of this benchmark
        return {**describe_setting(setting), "failed": f"{type(error).__name__}: {error}"}


def summary_line(entry: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    start = f"{entry['network']:27} {entry['method']:5} m {entry['batch_size']}  "
    if "failed" in entry:
        return f"{start}{entry['failed']}"
    single, double = entry["float32"], entry["float64"]
    searched = entry["search"]["float32"]
    time_text = f"  {entry['time']['ratio']['median']:5.2f}" if "time" in entry else ""
    return (
        f"{start}{entry['layers']:14} {single['rows']:2} rows  {single['mean_loss']:.0e} {single['losses']:.0e}  "
        f"{double['losses']:.0e}  ill-conditioned {len(single['ill_conditioned'])}  "
        f"search {'traced' if searched['traced'] else 'one by one'} {searched['losses']:.0e}{time_text}"
    )


def summarize(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of all networks."""
    done = [entry for entry in entries if "failed" not in entry]
    searches = {
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
        "max_relative_difference_of_search": max(search["losses"] for search in searches["float32"]),
        "max_relative_difference_of_search_float64": max(search["losses"] for search in searches["float64"]),
    }


def main() -> None:
    options = make_parser(__doc__ or "").parse_args()
    torch.set_num_threads(1)
    entries = []
    print("network, method, mini-batch, layers, rows; differences in single precision of mean losses and of losses, in")
    print("double precision; ill-conditioned rows; per-layer search; times faster than the plain loop")
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        for entry in pool.map(try_setting, settings(quick=options.quick)):
            print(summary_line(entry), flush=True)
            entries.append(entry)
    sizes = {"batches": BATCHES, "short_batches": FEW_BATCHES, "evaluations": EVALUATIONS}
    versions = {name: version(name) for name in ("torchvision", "segmentation-models-pytorch")}
    finish(
        "zoo",
        {**summarize(entries), **sizes, "pairs": PAIRS, "versions": versions, "entries": entries},
        save=options.save,
    )


if __name__ == "__main__":
    main()
