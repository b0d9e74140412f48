"""An executor that trains nothing and reports outcomes with given mean losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import CheckpointRecord, Evaluation, EvaluationKey
from bln_search.execution.messages import EvaluationDone, TrainingDone
from bln_search.specs import parse_study
from tests.worker.objective_executor import Killed

_EXAMPLES = 60
_ROW = InferenceConfiguration("----")


def one_row_study(*arms, seeds, name="looks"):
    """A study with arms without normalization, each of which has one row. seeds: as in a study file."""
    labels = ", ".join(f"{{method: none, name: {arm}}}" for arm in arms)
    return parse_study(
        f"{{name: {name}, data: {{name: digits}}, model: {{name: mlp}}, arms: [{labels}], seeds: {seeds}}}"
    )


class OutcomeExecutor:
    """Answers a trial with outcomes around the mean loss of its arm, which vary between seeds and examples.

    Args:
        losses: Mean loss by arm.
        spread: Standard deviation between seeds of the mean loss of an arm.
        noise: Standard deviation of effects of examples that all seeds of an arm share.
        kill_after: Number of trials after which the run ends.
        respond: Returns a message that replaces the outcomes of a trial, or None.
    """

    def __init__(self, losses, *, spread=0.001, noise=0.0, kill_after=None, respond: Callable = lambda _: None):
        self.losses, self.spread, self.kill_after, self.respond = losses, spread, kill_after, respond
        self.noise = noise
        self.seeds_by_arm = {arm: [] for arm in losses}

    def num_parallel_trials(self, _trials):
        return 2

    def run(self, next_task, report, pulse, trials=1):
        while (task := next_task()) is not None:
            if sum(map(len, self.seeds_by_arm.values())) == self.kill_after:
                raise Killed
            self.seeds_by_arm[task.trial.arm.label].append(task.trial.seed)
            answer = self.respond(task.trial)
            if answer is None:
                if task.checkpoint is None:
                    report(task, TrainingDone(CheckpointRecord("file", "0" * 64, 1, "----", 0.5, {})))
                answer = EvaluationDone(self._evaluate(task.trial))
            report(task, answer)
            pulse([])

    def _evaluate(self, trial):
        arm = trial.arm.label
        number = sorted(self.losses).index(arm)
        generator = np.random.default_rng([trial.seed, number])
        mean = self.losses[arm] + self.spread * generator.standard_normal()
        losses = mean + 0.01 * generator.standard_normal(_EXAMPLES)
        losses += self.noise * np.random.default_rng(number).standard_normal(_EXAMPLES)
        outcomes = ExampleOutcomes(losses.astype(np.float32), np.ones(_EXAMPLES, bool))
        return tuple(
            Evaluation.from_outcomes(EvaluationKey(_ROW, None, 25, split), outcomes)
            for split in (Split.VALIDATION, Split.TEST)
        )
