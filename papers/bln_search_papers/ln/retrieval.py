"""Retrieval: two embeddings of each example, of which one finds the other among those of all examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError
from bln_search.tasks import ContrastiveScore
from bln_search_papers.ln.retrieval_metrics import RETRIEVAL_DEPTHS, RetrievalDirection, mean_rank_name, recall_name

_LARGEST_CHUNK = 2**23
"""Numbers of the largest tensor in a comparison of embeddings."""


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine of the angle between embeddings (..., d), (...)."""
    return F.cosine_similarity(first, second, -1)


def order_embedding_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Return −‖max(0, second − first)‖² of embeddings (..., d), (...).

    It is 0 where no coordinate of the second embedding, of the more general part, exceeds that of the first.
    Source: Vendrov, Kiros, Fidler & Urtasun 2016, Order-Embeddings of Images and Language, Eq. 2.
    """
    return -(second - first).clamp_min(0).square().sum(-1)


_SIMILARITIES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": cosine_similarity,
    "order": order_embedding_similarity,
}


class SimilarityChunk(NamedTuple):
    """Some examples compared with all.

    Attributes:
        similarities: of each example with all others, (n, all).
        own: similarity of the two embeddings of each example, (n, 1).
        is_other: whether an example has another label than the one compared with, (n, all).
    """

    similarities: Tensor
    own: Tensor
    is_other: Tensor


@dataclass(frozen=True)
class RetrievalScore(ContrastiveScore):
    """Margin ranking loss of two embeddings of each example.

        loss_i = mean_j [max(0, m − s(a_i, b_i) + s(a_i, b_j)) + max(0, m − s(a_i, b_i) + s(a_j, b_i))]

    The mean is over the examples j with another label than i; without any the loss is 0. In training these are the
    examples of the mini-batch, in evaluation those of the split. The sum over j of the sources differs by a factor.

    Args:
        similarity: s of two embeddings, `cosine` or `order`, for which the second is the more general.
        margin: m.

    Source: Kiros, Salakhutdinov & Zemel 2014, Unifying Visual-Semantic Embeddings, section 2.2; Ba, Kiros & Hinton
    2016, section 6.1.
    """

    similarity: str = "cosine"
    margin: float = 0.2

    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distance of the two embeddings of each example, −s(a_i, b_i), and False."""
        first, second = unpack_embedding_pairs(outputs, targets)
        distances = -_SIMILARITIES[self.similarity](first, second)
        return distances, torch.zeros_like(distances, dtype=torch.bool)

    def score_examples_together(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each example, (n,), and False.

        Args:
            outputs: embeddings, (n, 2, d).
            targets: labels, (n,); examples with the same label match each other.
        """
        losses = []
        for seconds, firsts in zip(*self.iter_similarities_in_both_directions(outputs, targets), strict=True):
            count = seconds.is_other.sum(1).clamp_min(1)
            losses.append((self._sum_hinges(seconds) + self._sum_hinges(firsts)) / count)
        joined = torch.cat(losses)
        return joined, torch.zeros_like(joined, dtype=torch.bool)

    def iter_similarities_in_both_directions(
        self, outputs: Tensor, targets: Tensor
    ) -> tuple[Iterator[SimilarityChunk], Iterator[SimilarityChunk]]:
        """Return comparisons of the first embeddings with all second ones, and the other way round, by chunks."""
        first, second = unpack_embedding_pairs(outputs, targets)
        similarity = _SIMILARITIES[self.similarity]
        own = similarity(first, second).unsqueeze(1)
        size = max(1, _LARGEST_CHUNK // (len(first) * first.shape[1]))

        def compare(similarities: Callable[[slice], Tensor]) -> Iterator[SimilarityChunk]:
            for start in range(0, len(first), size):
                rows = slice(start, start + size)
                is_other = targets[rows].unsqueeze(1) != targets.unsqueeze(0)
                yield SimilarityChunk(similarities(rows), own[rows], is_other)

        return (
            compare(lambda rows: similarity(first[rows].unsqueeze(1), second)),
            compare(lambda rows: similarity(first, second[rows].unsqueeze(1))),
        )

    def _sum_hinges(self, comparison: SimilarityChunk) -> Tensor:
        hinges = (self.margin - comparison.own + comparison.similarities).clamp_min(0)
        return torch.where(comparison.is_other, hinges, 0).sum(1)


class RetrievalMetrics:
    """Recall at k and mean rank, in both directions.

    The rank of an example is 1 plus the number of examples with another label that are more similar than the most
    similar one with its label; equal ones count half. Recall at k is the fraction of ranks of at most k.

    Args:
        options: those of the score, of which the similarity matters.
    """

    def __init__(self, **options: Any) -> None:
        self._score = RetrievalScore(**options)
        self.reset()

    def reset(self) -> None:
        """Forget all examples."""
        self._outputs: list[Tensor] = []
        self._targets: list[Tensor] = []

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add embeddings (n, 2, d) and labels (n,), which are kept."""
        self._outputs.append(outputs.detach().clone())
        self._targets.append(targets)

    def compute(self) -> dict[str, float]:
        """Return the metrics by name; NaN without examples or with embeddings that are not finite."""
        if not self._outputs:
            return {}
        comparisons = self._score.iter_similarities_in_both_directions(
            torch.cat(self._outputs), torch.cat(self._targets)
        )
        values = {}
        for direction, chunks in zip(RetrievalDirection, comparisons, strict=True):
            ranks = torch.cat([_ranks(chunk) for chunk in chunks])
            is_known = bool(ranks.isfinite().all())
            for depth in RETRIEVAL_DEPTHS:
                recall = (ranks <= depth).double().mean().item()
                values[recall_name(depth, direction)] = recall if is_known else math.nan
            values[mean_rank_name(direction)] = ranks.mean().item()
        return values


def unpack_embedding_pairs(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and the second embedding of each example, (n, d).

    Raises:
        DataError: the outputs have another shape, or there is not one label for each example.
    """
    if outputs.ndim != 3 or outputs.shape[1] != 2 or targets.shape != outputs.shape[:1]:
        raise DataError(
            f"the network gives outputs of shape {tuple(outputs.shape)} for labels of shape {tuple(targets.shape)}: "
            "retrieval takes two embeddings of each example, of shape (examples, 2, features), and labels (examples,)"
        )
    return outputs[:, 0], outputs[:, 1]


def _ranks(comparison: SimilarityChunk) -> Tensor:
    """Return the rank of each example, (n,) float64; NaN where a similarity is."""
    similarities, is_other = comparison.similarities, comparison.is_other
    best = similarities.masked_fill(is_other, -torch.inf).amax(1, keepdim=True)
    ranks = 1 + (is_other & (similarities > best)).sum(1) + (is_other & (similarities == best)).sum(1) / 2
    return ranks.double().masked_fill(similarities.isnan().any(1), torch.nan)


def find_label_problem(targets: Tensor, _outputs: int) -> str | None:
    """Return what is wrong with labels, numbers that examples share which match; None where nothing is."""
    is_number = targets.ndim == 1 and targets.dtype == torch.int64
    return None if is_number else f"{targets.dtype} of shape {tuple(targets.shape)}, int64 of shape (n,) is required"
