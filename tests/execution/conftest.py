"""A trial that is run once for all tests of a module: the module's `TRIAL`."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    return ExecutionEnvironment(folder, folder, FolderStore(folder / "checkpoints"))


@pytest.fixture(scope="module")
def messages(request, environment):
    """What the trial sends."""
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, request.module.TRIAL), environment, sent.append):
        pass
    return sent


@pytest.fixture(scope="module")
def evaluations(messages):
    (done,) = (message for message in messages if isinstance(message, EvaluationDone))
    return done.evaluations


@pytest.fixture(scope="module")
def checkpoint(messages):
    return next(message.checkpoint for message in messages if isinstance(message, TrainingDone))
