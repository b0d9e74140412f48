"""Losses of a converted network in one pass, or found by a search, compared with those of a plain loop."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from bench.support.zoo.networks import NETWORKS, Examples, Subject
from bln_search.api.apply import Choice, apply_configuration
from bln_search.api.arguments import MethodName
from bln_search.api.convert import convert
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.layer_search import search_layers
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.errors import BatchDependenceWarning
from bln_search.core.records import EvaluationKey

BATCHES, FEW_BATCHES = 4, 2
"""Numbers of mini-batches whose losses are compared: in single precision, and in double precision and by the search."""

EVALUATIONS = 24
"""Evaluations of each step of the per-layer search."""

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
    layers: str = ""
    changed: float | None = None

    def in_double(self) -> Prepared:
        """Return a copy in double precision."""
        validation = [(cast(x, torch.float64), y) for x, y in self.validation]
        return Prepared(deepcopy(self.network).double(), self.training, validation)


def prepare(setting: Setting, dtype: torch.dtype) -> Prepared:
    """Build a network, run it in training mode and convert it; return it with training and validation data."""
    torch.manual_seed(0)
    subject = NETWORKS[setting.network]
    network = subject.make(setting.pixels).to(dtype)
    layers = _count_layers(network)
    training, validation = (draw_batches(subject, setting, BATCHES, dtype) for _ in range(2))
    inputs, _ = validation[0]
    with torch.no_grad():
        for x, _ in training:
            network.train()(x)
        _scale_head(network.eval(), inputs)
        change = convert_in_place(network, inputs, setting.method, setting.batch_size)
        _scale_head(network, inputs)
    return Prepared(network, training, validation, layers, change if setting.method == "same" else None)


@torch.no_grad()
def convert_in_place(
    network: nn.Module, inputs: Tensor, method: MethodName = "same", batch_size: int | None = None
) -> float:
    """Convert a network in place; return the relative difference of its outputs.

    The warning that converted networks with running statistics need training is ignored.
    """
    before = network(inputs).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        convert(network, method=method, batch_size=batch_size)
    return largest_relative_difference(network.eval()(inputs).numpy(), before)


def draw_batches(subject: Subject, setting: Setting, batches: int, dtype: torch.dtype) -> list[Examples]:
    """Return mini-batches of random examples."""
    inputs, targets = subject.draw(setting.batch_size * batches, setting.pixels)
    size = setting.batch_size
    return list(zip(torch.split(cast(inputs, dtype), size), torch.split(targets, size), strict=True))


def cast(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return inputs in another precision; token ids are unchanged."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _scale_head(network: nn.Module, inputs: Tensor) -> None:
    """Scale the last layer to outputs of standard deviation 1: small outputs would hide differences of losses."""
    head = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1]
    factor = 1 / float(network(inputs).std())
    for parameter in head.parameters():
        parameter.mul_(factor)


def _count_layers(network: nn.Module) -> str:
    """Return the number of normalization layers by kind."""
    names = {nn.BatchNorm1d: "BN", nn.BatchNorm2d: "BN", nn.LayerNorm: "LN"}
    counts = Counter(names[type(module)] for module in network.modules() if type(module) in names)
    return " + ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def largest_relative_difference(actual: Losses, expected: Losses) -> float:
    """Return the largest |actual - expected| / (1 + |expected|); equal values, and two NaN, do not differ."""
    a, b = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return float(np.where(equal, 0.0, np.abs(a - b) / (1 + np.abs(b))).max(initial=0.0))


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchDependenceWarning)
        apply_configuration(network, choice).eval()
    losses: Losses = torch.cat([losses_of(network(x), y) for x, y in batches]).numpy()
    return losses


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


def evaluate(subject: Prepared, batches: Sequence[Examples], *, one_pass: bool = True) -> RankedConfigurations:
    """Return the leaderboard."""
    return evaluate_configurations(subject.network, subject.training, batches, score=score, one_pass=one_pass)


def losses_in(ranked: RankedConfigurations, choice: RankedConfiguration) -> Losses:
    """Return losses of single examples under a row of the leaderboard."""
    row = choice.row
    key = EvaluationKey(row.configuration, row.estimate, row.batch_size, ranked.board.ranked_on)
    return ranked.outcomes[key].losses


def compare_rows(subject: Prepared, rounding: Iterable[str] = (), *, one_pass: bool = True) -> dict[str, Any]:
    """Compare the rows of the one pass with the plain loop.

    Args:
        subject: The network.
        rounding: Rows that are known to be ill-conditioned. They, and those that warnings name, are compared in double
            precision and reported apart from the others.
        one_pass: Whether all rows are evaluated in one pass.
    """
    with collect_warnings() as messages:
        ranked = evaluate(subject, subject.validation, one_pass=one_pass)
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
