"""Losses of a converted network in one pass, or found by a search, compared with those of a plain loop."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.support.relative_difference import Losses, largest_relative_difference
from bench.support.zoo.networks import Examples
from bench.support.zoo.preparation import FEW_BATCHES, Prepared
from bln_search.api.apply import Choice, apply_configuration
from bln_search.api.evaluate import evaluate_configurations
from bln_search.api.layer_search import search_layers
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.records import EvaluationKey

EVALUATIONS = 24
"""Evaluations of each step of the per-layer search."""


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
