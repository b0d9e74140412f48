"""Run one trial: train its network, store the checkpoint, evaluate and probe it, adapt it to streams."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from bln_search.core.records import EpochRecord
from bln_search.evaluation.chunking import MEMORY_LIMIT, release_freed_memory
from bln_search.execution.code_identity import check_code_of_task
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.gpu import read_peak_memory, reset_peak_memory
from bln_search.execution.loaded_network import build_initialized_network, load_network_if_readable
from bln_search.execution.messages import EvaluationDone, Send, TrialTask
from bln_search.execution.trial_evaluation import TestSplits, evaluate_trained_network, measure_trial_probes
from bln_search.execution.trial_streams import run_trial_over_streams
from bln_search.execution.trial_training import iter_epochs_and_write_checkpoint
from bln_search.training.loop import EpochToTrain
from bln_search.training.seeding import reproducible_torch


def iter_epochs_of_trial_task(
    task: TrialTask, environment: ExecutionEnvironment, send: Send
) -> Generator[EpochRecord | None, None, None]:
    """As `run_trial_task_announcing_epochs`, without the epochs that are trained next."""
    with closing(run_trial_task_announcing_epochs(task, environment, send)) as steps:
        for step in steps:
            if not isinstance(step, EpochToTrain):
                yield step


def run_trial_task_announcing_epochs(
    task: TrialTask, environment: ExecutionEnvironment, send: Send
) -> Generator[EpochToTrain | EpochRecord | None, None, None]:
    """Train the task's network unless it has a checkpoint, evaluate it, run streams, and send every step as a message.

    The network of a search trial is not evaluated.

    Args:
        task: The trial and the state it is in.
        environment: Folders, checkpoint store, device and threads.
        send: Receives every message in order.

    Raises:
        CodeChangedError: The code of the trial is not that of the process that runs its study.

    Yields:
        Each epoch before it is trained, and its record after it was sent; then None before the evaluation. Closing the
        generator after an epoch abandons the trial.
    """
    trial, memory_limit = task.trial, task.memory_limit or MEMORY_LIMIT
    try:
        code = check_code_of_task(task)
        with reproducible_torch(trial.seed, threads=environment.threads):
            data = load_and_prepare_data(trial.data, environment.data, environment.cache, environment.device)
            reset_peak_memory(environment.peak_memory_device)
            network = build_initialized_network(trial, data).to(environment.device)
            loaded = load_network_if_readable(trial, task.checkpoint, network, data, environment)
            if loaded is None:
                loaded = yield from iter_epochs_and_write_checkpoint(task, network, data, environment, send, code)
                yield None
            if loaded is not None and trial.is_search_phase_trial:
                send(EvaluationDone(()))
            elif loaded is not None:
                reset_peak_memory(environment.peak_memory_device)
                tests: TestSplits | None = None if trial.stream is None else {}
                evaluations = evaluate_trained_network(loaded, send, memory_limit=memory_limit, tests=tests)
                probes = (
                    ()
                    if trial.probes is None
                    else measure_trial_probes(loaded, trial.probes, environment, memory_limit)
                )
                streams = () if tests is None else run_trial_over_streams(loaded, tests, send)
                peak_memory = read_peak_memory(environment.peak_memory_device)
                send(EvaluationDone(evaluations, probes, peak_memory, streams))
    finally:
        release_freed_memory()
