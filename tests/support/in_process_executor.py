"""An executor without processes, for tests of whole studies."""

from __future__ import annotations

from bln_search.execution.trial import iter_epochs_of_trial_task


class InProcessExecutor:
    """Runs every trial in this process, and counts those that were trained before."""

    def __init__(self, environment):
        self.environment = environment
        self.evaluated_from_checkpoint = 0

    def num_parallel_trials(self, _trials):
        return 1

    def run(self, next_task, report, pulse, trials=1):
        while (task := next_task()) is not None:
            self.evaluated_from_checkpoint += task.checkpoint is not None
            for _ in iter_epochs_of_trial_task(
                task, self.environment, lambda message, task=task: report(task, message)
            ):
                pulse([])
