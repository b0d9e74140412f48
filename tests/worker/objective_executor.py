"""An executor whose trials run side by side, end in a random order, and have the loss of a given function."""

from __future__ import annotations

import math
import random
from collections import Counter

from bln_search.core.records import CheckpointRecord
from bln_search.execution.messages import EvaluationDone, TrainingDiverged, TrainingDone


class Killed(BaseException):
    """The run ends here."""


class ObjectiveExecutor:
    """Answers a trial with `loss(trial)`: a checkpoint of that validation loss, divergence for one that is not finite.

    Args:
        loss: Function of a trial; may return a message that ends the trial.
        parallel: Trials that run at the same time.
        seed: Of the order in which they end.
        kill_after: Number of messages after which the run ends.
    """

    def __init__(self, loss, *, parallel=3, seed=0, kill_after=None):
        self.loss, self.parallel, self.kill_after = loss, parallel, kill_after
        self.random = random.Random(seed)
        self.tasks, self.live = [], []
        self.most_live = Counter()
        self.sent = 0

    def choose(self, live):
        """The position of the trial that ends next."""
        return self.random.randrange(len(live))

    def num_parallel_trials(self, _trials):
        return 1

    def run(self, next_task, report, pulse, trials=1):
        self.report, self.planned = report, trials
        while True:
            while len(self.live) < self.parallel and (task := next_task()) is not None:
                self.tasks.append(task)
                self.live.append(task)
            if not self.live:
                return
            for arm, count in Counter(task.trial.arm.label for task in self.live).items():
                self.most_live[arm] = max(self.most_live[arm], count)
            self._end(self.live.pop(self.choose(self.live)))
            pulse([])

    def _end(self, task):
        answer = self.loss(task.trial)
        if not isinstance(answer, float):
            self._send(task, answer)
        elif math.isfinite(answer):
            if task.checkpoint is None:
                provenance = {"running_training_loss": answer}
                self._send(task, TrainingDone(CheckpointRecord("file", "0" * 64, 1, "FFFF", answer, provenance)))
            self._send(task, EvaluationDone(()))
        else:
            self._send(task, TrainingDiverged("not finite"))

    def _send(self, task, message):
        if self.sent == self.kill_after:
            raise Killed
        self.sent += 1
        self.report(task, message)
