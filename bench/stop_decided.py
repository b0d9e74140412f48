"""Evaluation until the recommendation is decided (`stop="decided"`) against the evaluation of all examples.

LeNet on MNIST and ResNet-18 on CIFAR-10, trained shortly with BLN, validation in mini-batches; simulated images where
the data sets are missing. Time: both evaluations alternate. Draws: the mini-batches in other random orders, of which
the outcomes are taken from one evaluation of all examples. A draw contradicts all examples if its recommended row is
there above the lowest loss by more than the margin, or if its verdict is `better` and another row is the best one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import bln_search
from bench.support.reporting import finish, make_parser, spread
from bln_search.api.inputs.evaluation_data import (
    Condition,
    EvaluationData,
    parse_condition_loaders,
    parse_population_loaders,
)
from bln_search.api.network_evaluation import CheckedEvaluationArguments, LoadedSplit, NetworkEvaluator, PreparedRows
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.api.staged_evaluation import evaluate_until_decided
from bln_search.core.enums import Correction
from bln_search.core.errors import DataError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.data.catalog import load_data_set
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.evaluation.class_counts import ClassCounter
from bln_search.models import build_model
from bln_search.norms import BLN
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.ranking.comparison import Verdict
from bln_search.settings import load_settings
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness

BATCH = 25
Batches = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Subject:
    """A network with its data set, and the numbers of examples for training and validation."""

    model: str
    data_set: str
    shape: tuple[int, int, int]
    training: int
    validation: int


SUBJECTS = (
    Subject("lenet", "mnist", (1, 28, 28), 10_000, 10_000),
    Subject("resnet18", "cifar10", (3, 32, 32), 10_000, 10_000),
)
QUICK_SUBJECTS = (
    replace(SUBJECTS[0], training=2_000, validation=3_000),
    replace(SUBJECTS[1], training=500, validation=800),
)


def load_images(subject: Subject, data: Path) -> tuple[Tensor, Tensor, bool]:
    """Standardized images (n, C, H, W), their classes, and whether they are simulated."""
    count = subject.training + subject.validation
    try:
        loaded = load_data_set(subject.data_set, data)
        images, labels = torch.tensor(loaded.train_inputs[:count]).float(), torch.tensor(loaded.train_labels[:count])
        return (images - images.mean()) / images.std(), labels, False
    except DataError:
        torch.manual_seed(1)
        labels = torch.randint(0, 10, (count,))
        return torch.randn(10, *subject.shape)[labels] / 4 + torch.randn(count, *subject.shape), labels, True


def train_network(subject: Subject, batches: Batches) -> nn.Module:
    """A network with BLN after two epochs."""
    network = build_model(subject.model, subject.shape, 10, partial(BLN, batch_size=BATCH, epsilon=1e-5), seed=0)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    network.train()
    for inputs, targets in batches * 2:
        optimizer.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network.eval()


class RecordedEvaluator(NetworkEvaluator):
    """Gives the outcomes of one evaluation of all examples again, for mini-batches in other orders.

    Args:
        network: The network.
        train: Mini-batches of the population.
        validation: Mini-batches of the validation split.
        full: The table of all examples.
    """

    def __init__(self, network: nn.Module, train: Batches, validation: Batches, full: RankedConfigurations) -> None:
        conditions = parse_condition_loaders(validation, None)
        self.data = EvaluationData.from_loaders(parse_population_loaders(train), conditions)
        settings = CheckedEvaluationArguments(
            scoring=cross_entropy_and_correctness,
            correction=Correction.BESSEL,
            weights=MixtureWeights(),
            batch_sizes=None,
            forward=None,
            target=None,
            metrics={},
            gathered=None,
            per_slot=False,
            one_pass=True,
            memory_limit=MEMORY_LIMIT,
            progress=ProgressLines(enabled=False),
        )
        super().__init__(network, self.data, settings)
        self._prepared = super().prepare_rows()
        self._recorded = {InferenceRow(key.configuration, key.estimate): full.outcomes[key] for key in full.outcomes}
        self.order: Sequence[int] = range(len(validation))

    def prepare_rows(self) -> PreparedRows:
        """The rows with the populations that were collected once."""
        return self._prepared

    def load_validation_split(self, condition: Condition, classes: ClassCounter) -> LoadedSplit:
        """The split with its mini-batches in the present order."""
        split = super().load_validation_split(condition, classes)
        return replace(split, batches=[split.batches[position] for position in self.order])

    def evaluate_batches_of_split(
        self, split: LoadedSplit, batches: Sequence[int], rows: Sequence[InferenceRow], prepared: PreparedRows
    ) -> list[ExampleOutcomes | str]:
        """The recorded outcomes."""
        del prepared
        size = split.batch_size
        examples = np.concatenate([self.order[batch] * size + np.arange(size) for batch in batches])
        recorded = (self._recorded[row] for row in rows)
        return [ExampleOutcomes(of_row.losses[examples], of_row.correct[examples]) for of_row in recorded]

    def draw(self, seed: int) -> RankedConfigurations:
        """The table that `stop="decided"` gives for the mini-batches in a random order."""
        self.order = np.random.default_rng(seed).permutation(len(self.order)).tolist()
        return evaluate_until_decided([self], self.data.conditions[0], ())


def judge_draws(recorded: RecordedEvaluator, full: RankedConfigurations, draws: int) -> dict[str, Any]:
    """How the tables of random orders compare with the table of all examples."""
    losses = {(row.configuration, row.row.estimate): row.row.metrics[full.board.ranked_on].loss.mean for row in full}
    best, comparison = full.best, full.comparison
    assert comparison is not None
    recommended = full.recommended.configuration, full.recommended.row.estimate
    lowest = losses[best.configuration, best.row.estimate]
    counts = dict.fromkeys(("contradictions", "other_rows", "early", "undecided"), 0)
    shares, excess = [], []
    for seed in range(draws):
        table = recorded.draw(seed)
        reading, recommendation = table.staged_reading, table.recommendation
        assert reading is not None
        assert recommendation is not None
        row = table.recommended.configuration, table.recommended.row.estimate
        excess.append(losses[row] - lowest)
        is_wrongly_best = recommendation.verdict is Verdict.BETTER and losses[row] > lowest
        counts["contradictions"] += reading.is_decided and (excess[-1] > comparison.margin or is_wrongly_best)
        counts["other_rows"] += row != recommended
        counts["early"] += reading.examples < reading.of
        counts["undecided"] += not reading.is_decided
        shares.append(reading.examples / reading.of)
    return {"draws": draws, **counts, "share_of_examples": spread(shares), "loss_above_lowest": spread(excess)}


def measure(subject: Subject, data: Path, rounds: int, draws: int) -> dict[str, Any]:
    """Seconds of both evaluations, what was decided, and the draws."""
    images, labels, is_simulated = load_images(subject, data)
    batches = [(images[i : i + BATCH], labels[i : i + BATCH]) for i in range(0, len(images), BATCH)]
    train, validation = batches[: subject.training // BATCH], batches[subject.training // BATCH :]
    network = train_network(subject, train)
    population = train[:20]
    evaluate = partial(bln_search.evaluate_configurations, network, population, progress=False)
    evaluate(validation[:2])  # what is compiled or imported at the first call
    seconds: dict[str, list[float]] = {"full": [], "decided": []}
    tables: dict[str, RankedConfigurations] = {}
    for _ in range(rounds):
        for name, stop in (("full", None), ("decided", "decided")):
            start = time.perf_counter()
            table = evaluate(validation, stop=stop)
            assert isinstance(table, RankedConfigurations)
            tables[name] = table
            _ = tables[name].recommended  # with the comparison of the rows
            seconds[name].append(time.perf_counter() - start)
    reading = tables["decided"].staged_reading
    assert reading is not None
    result = {
        "simulated": is_simulated,
        "validation_examples": subject.validation,
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "speedup": spread([full / early for full, early in zip(seconds["full"], seconds["decided"], strict=True)]),
        "examples_read": reading.examples,
        "recommended": {name: str(table.recommended) for name, table in tables.items()},
        "verdict": {name: str(t.recommendation.verdict) for name, t in tables.items() if t.recommendation},
        **judge_draws(RecordedEvaluator(network, population, validation, tables["full"]), tables["full"], draws),
    }
    print(f"{subject.model:9} {result}")
    return result


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--data", type=Path, default=None, help="folder of data sets; by default that of the settings")
    options = parser.parse_args()
    torch.set_num_threads(2)
    subjects, rounds = (QUICK_SUBJECTS, 1) if options.quick else (SUBJECTS, 5)
    data = options.data or load_settings().data_folder
    measured = {subject.model: measure(subject, data, rounds, draws=100) for subject in subjects}
    finish("stop_decided", {"batch_size": BATCH, "rounds": rounds, "networks": measured}, save=options.save)


if __name__ == "__main__":
    main()
