"""An executor that answers every task with invented, valid messages after a given time, without training."""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.support.ledgers import CONFIGURATIONS
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, EvaluationKey
from bln_search.execution.executors.base import NextTask, OnMessage, OnTick
from bln_search.execution.messages import EpochDone, EvaluationDone, Message, TrainingDone, TrialTask

EVALUATIONS = 2 * len(CONFIGURATIONS)
"""Evaluations of a trial: every configuration on two splits."""

_TICK_SECONDS = 0.5
_DISTINCT_RESULTS = 8
_MAX_STARTS = 100


class NullExecutor:
    """Keeps `live` trials, each of which ends its epochs at evenly spaced times, then its training and evaluation.

    Args:
        live: Trials side by side.
        epochs: Epochs of each trial.
        seconds: Mean duration of a trial, uniform from half to one and a half of it; 0 for trials that end at once.
        examples: Examples of the outcomes of each evaluation; 0 for evaluations without outcomes.

    Attributes:
        sent: Number of trials, epochs and evaluations that the driver accepted.
        ends: When each unwritten epoch of a trial should have been reported, by token (monotonic clock, seconds).
    """

    def __init__(self, live: int, epochs: int, seconds: float, examples: int) -> None:
        self.live, self.epochs, self.seconds = live, epochs, seconds
        self.sent: Counter[str] = Counter()
        self.ends: dict[int, list[float]] = {}
        self._rng = random.Random(0)
        self._results = [make_evaluations(examples, number) for number in range(_DISTINCT_RESULTS)]
        self._due: list[tuple[float, int, int, TrialTask]] = []
        self._running: dict[int, TrialTask] = {}

    def num_parallel_trials(self, trials: int) -> int:  # noqa: ARG002 - part of the protocol
        """Number of trials side by side."""
        return self.live

    def run(self, next_task: NextTask, on_message: OnMessage, on_tick: OnTick, trials: int = 1) -> None:  # noqa: ARG002
        """Answer every task."""
        while True:
            self._start_tasks(next_task)
            if not self._running:
                return
            self._send_due_messages(on_message)
            on_tick(list(self._running))
            self._wait()

    def _start_tasks(self, next_task: NextTask) -> None:
        """Start tasks until no more fit, or `_MAX_STARTS`: as those of Ray, starts take turns with messages."""
        for _ in range(min(_MAX_STARTS, self.live - len(self._running))):
            task = next_task()
            if task is None:
                return
            self._start(task)

    def _start(self, task: TrialTask) -> None:
        self._running[task.token] = task
        duration, now = self.seconds * self._rng.uniform(0.5, 1.5), time.monotonic()
        self.ends[task.token] = []
        for step in range(1, self.epochs + 2):  # the last one is the evaluation
            end = now + duration * step / (self.epochs + 1)
            heapq.heappush(self._due, (end, task.token, step, task))

    def _send_due_messages(self, on_message: OnMessage) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            end, token, step, task = heapq.heappop(self._due)
            if step <= self.epochs:
                self.ends[token].append(end)
                on_message(task, EpochDone(EpochRecord(step, 0.5, 0.5, 0.6, 0.5, self.seconds / self.epochs)))
                self.sent["epochs"] += 1
            else:
                del self._running[token]
                for message in self._end_messages(task):
                    on_message(task, message)
                self.sent["trials"] += 1
                self.sent["evaluations"] += EVALUATIONS

    def _end_messages(self, task: TrialTask) -> Sequence[Message]:
        name = f"{task.token}.safetensors"
        checkpoint = CheckpointRecord(name, f"{task.token:064x}", self.epochs, "FFFF", 0.5, {"torch": "none"})
        return TrainingDone(checkpoint), EvaluationDone(self._results[task.token % _DISTINCT_RESULTS])

    def _wait(self) -> None:
        """Sleep until the next message is due."""
        now = time.monotonic()
        if self._due and self._due[0][0] > now:
            time.sleep(min(_TICK_SECONDS, self._due[0][0] - now))


def make_evaluations(examples: int, number: int) -> tuple[Evaluation, ...]:
    """Return random evaluations of a trial under every configuration on two splits, equal for equal numbers.

    Args:
        examples: Examples of the outcomes of each evaluation; 0 for evaluations without outcomes.
        number: Seed of the random numbers.
    """
    rng = np.random.default_rng(number)
    return tuple(
        _make_evaluation(code, split, examples, rng)
        for code in CONFIGURATIONS
        for split in (Split.VALIDATION, Split.TEST)
    )


def _make_evaluation(code: str, split: Split, examples: int, rng: np.random.Generator) -> Evaluation:
    estimate = PopulationEstimate.FROZEN if "T" in code else None
    key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
    losses = rng.exponential(0.5, examples or 100).astype(np.float32)
    evaluation = Evaluation.from_outcomes(key, ExampleOutcomes(losses, losses < 0.7))
    return evaluation if examples else replace(evaluation, outcomes=None)
