"""A watcher of runs."""

from __future__ import annotations


class RecordingWatcher:
    """Records the messages of a run with the labels of their trials.

    Args:
        callback: Called with every message.
    """

    def __init__(self, callback=None):
        self.messages = []
        self.callback = callback

    def on_run_start(self, trials):
        self.trials = trials

    def on_message(self, trial, message):
        self.messages.append((trial.label, message))
        if self.callback:
            self.callback(message)
