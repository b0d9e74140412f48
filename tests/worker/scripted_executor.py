"""An executor that reports given messages."""

from __future__ import annotations

from bln_search.execution.messages import TrainingDiverged


class ScriptedExecutor:
    """Answers the tasks in turn with the messages it was given."""

    def __init__(self, *messages):
        self.messages = list(messages)
        self.tasks = []

    def num_parallel_trials(self, _trials):
        return 1

    def run(self, next_task, report, pulse, trials=1):
        while (task := next_task()) is not None:
            self.tasks.append(task)
            answer = self.messages.pop(0) if self.messages else TrainingDiverged("scripted")
            for message in answer if isinstance(answer, tuple) else (answer,):
                report(task, message)
            pulse([])
