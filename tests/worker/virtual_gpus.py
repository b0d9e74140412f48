"""Processes of the local executor in virtual time: a trial takes its learning rate times 1,000 in seconds."""

from __future__ import annotations

from bln_search.core.records import CheckpointRecord, EpochRecord
from bln_search.execution.messages import EpochDone, EvaluationDone, TrainingDone

START_SECONDS = 8.0
"""Virtual seconds from the start of a process to its first trial."""


class VirtualMachine:
    """In place of multiprocessing's context. Its clock moves to the next message when the driver waits.

    Attributes:
        now: Virtual seconds since the start.
        trials: GPU, start and end of every trial that was handed out.
    """

    def __init__(self):
        self.now = 0.0
        self.trials = []
        self.connections = []

    def Pipe(self):  # noqa: N802 - the name of multiprocessing
        connection = VirtualConnection(self)
        self.connections.append(connection)
        return connection, connection

    def Process(self, *, target, args, daemon):  # noqa: N802 - the signature of multiprocessing
        *_, connection, connection.environment = args
        return VirtualProcess(connection)

    def set_forkserver_preload(self, modules):
        pass

    def wait(self, sources, timeout):
        pending = [connection.messages[0][0] for connection in self.connections if connection.messages]
        self.now = max(self.now, min(pending, default=self.now))

    def spend(self, seconds):
        """Let the driver work for so long, in which it starts no trial."""
        self.now += seconds


class VirtualConnection:
    """Both ends of the pipe of a process, which answers a trial with its messages at their times."""

    def __init__(self, machine):
        self.machine = machine
        self.messages = []
        self.ready_at = machine.now + START_SECONDS

    def send(self, task):
        start, seconds = max(self.machine.now, self.ready_at), 1000 * task.trial.training.learning_rate
        device = self.environment.device
        for epoch in range(1, task.trial.epochs + 1):
            at = start + 0.8 * seconds * epoch / task.trial.epochs
            self._answer(at, task, EpochDone(EpochRecord(epoch, 1.0, 0.5, 1.0, 0.5, 0.1)))
        checkpoint = CheckpointRecord(task.trial.key, "0" * 64, task.trial.epochs, "FFFF", 1.0, {"device": device})
        self._answer(start + 0.8 * seconds, task, TrainingDone(checkpoint))
        self._answer(start + seconds, task, EvaluationDone(()))
        self.machine.trials.append((device, start, start + seconds))

    def _answer(self, at, task, message):
        self.messages.append((at, (task.token, message)))

    def poll(self):
        return bool(self.messages) and self.messages[0][0] <= self.machine.now

    def recv(self):
        return self.messages.pop(0)[1]

    def close(self):
        pass


class VirtualProcess:
    """A process that runs until it is joined."""

    exitcode = None

    def __init__(self, connection):
        self.sentinel = connection

    def start(self):
        pass

    def is_alive(self):
        return True

    def join(self):
        pass


def idle_fraction(trials):
    """The fraction of time in which GPUs waited for a trial: from each one's first trial until one has no more."""
    devices = {device for device, _, _ in trials}
    last = min(max(end for own, _, end in trials if own == device) for device in devices)
    available = sum(last - min(start for own, start, _ in trials if own == device) for device in devices)
    return 1 - sum(max(0.0, min(end, last) - start) for _, start, end in trials) / available
