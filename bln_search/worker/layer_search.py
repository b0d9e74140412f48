"""Searches per-layer configurations of the trained networks of a study."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

from bln_search.core.errors import DataError, ModelError, TrialProcessLostError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.records import CheckpointRecord
from bln_search.evaluation.tree.running_score_sums import RunningScoreSums
from bln_search.execution.device_process import use_environment_in_this_process
from bln_search.execution.devices import choose_first_device_name, is_gpu
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.cpu_limits import choose_num_processes_per_device, num_available_cores
from bln_search.search.layers.trial_search import search_layers_of_trial, search_layers_within_time_slice
from bln_search.specs.records import TrialRecord
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.trial import TrialSpec
from bln_search.storage.ledger import Ledger
from bln_search.worker.study_code import check_code_of_study

_SAVE_INTERVAL = 20.0
"""Seconds between two saves of the progress of an enumeration."""

_SLICE_SECONDS = 10.0
"""Seconds after which a worker process returns the progress of its enumeration."""

_MIN_PARALLEL_SECONDS = 20.0
"""Estimated total duration of the searches, in seconds, above which processes are started."""

OnProgress = Callable[[str], None]


class SearchStoppedError(Exception):
    """The search was asked to stop; its progress is saved."""


def search_layers_of_study(
    ledger: Ledger,
    study_id: int,
    environment: ExecutionEnvironment,
    spec: LayerSearchSpec,
    on_progress: OnProgress,
    *,
    max_workers: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    accept_code_change: bool = False,
) -> int:
    """Search every trained network that was not searched as `spec` asks; those without normalization are skipped.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        environment: Where the search runs.
        spec: What to search.
        on_progress: Called with a line for every network, and for enumerations under way.
        max_workers: Networks that are searched in parallel, each in its own process. None: as many as there are cores,
            if the time of the first network shows that starting processes is worthwhile.
        should_stop: Whether to stop now; polled after each group of mini-batches.
        accept_code_change: Record changed code of plugins as accepted instead of raising an error.

    Returns:
        The number of networks that were searched now.

    Raises:
        DataError: no network is trained; or, after all others were searched, a checkpoint is not on this machine or has
            too few mini-batches for its folds.
        ModelError: after all others were searched, a network cannot be split at its layers.
        TrialProcessLostError: a process of the search was killed; the progress is saved.
        SearchStoppedError: `should_stop` returned true; the progress is saved.
        CodeChangedError: the code of a plugin is not that of the networks.
    """
    study = ledger.studies.get(study_id)
    study.check_has_no_external_results()
    trained = [trial for trial in ledger.trials.list_finished_full_trials(study_id) if trial.spec.arm.method.statistics]
    if not trained:
        raise DataError("the study has no trained network with normalization layers yet: run it first")
    open_trials = [trial for trial in trained if not ledger.layer_searches.is_search_finished(trial.id, spec)]
    check_code_of_study(ledger, study, accept_change=accept_code_change, adds_results=bool(open_trials))
    finished_before = len(trained) - len(open_trials)
    job = _SearchJob(
        _ContextSharedByNetworks(ledger, spec, on_progress, should_stop), environment, len(trained), finished_before
    )
    on_gpu = is_gpu(choose_first_device_name(environment.device))
    if max_workers is None and open_trials and not on_gpu:
        job.search_sequentially(open_trials[:1])
        max_workers = job.choose_num_workers(len(open_trials) - 1)
        open_trials = open_trials[1:]
    if on_gpu and open_trials:  # this process opens no GPU
        job.search_in_parallel(open_trials, min(max_workers or 1, len(open_trials)))
    elif max_workers is not None and max_workers > 1 and len(open_trials) > 1:
        job.search_in_parallel(open_trials, min(max_workers, len(open_trials)))
    else:
        job.search_sequentially(open_trials)
    if job.errors:
        first, count = job.errors[0], len(job.errors)
        raise type(first)(f"the layers of {count} of {len(trained)} networks were not searched: {first}")
    return job.finished - finished_before


@dataclass(frozen=True)
class _ContextSharedByNetworks:
    """What the searches of all networks share."""

    ledger: Ledger
    spec: LayerSearchSpec
    on_progress: OnProgress
    should_stop: Callable[[], bool]

    def save_loss_sums(self, trial: TrialRecord, sums: RunningScoreSums) -> None:
        sha256 = trial.get_checkpoint_record().sha256
        self.ledger.layer_searches.save_progress(trial.id, sha256, self.spec, sums.fold_score_sums, sums.done)


class _SearchJob:
    """Searches the networks of a study.

    Args:
        context: What all searches share.
        environment: Where the search runs.
        total: Number of trained networks.
        finished: Number of networks that were searched before.
    """

    def __init__(
        self, context: _ContextSharedByNetworks, environment: ExecutionEnvironment, total: int, finished: int
    ) -> None:
        self.context, self.environment = context, environment
        self.total, self.finished = total, finished
        self.errors: list[DataError | ModelError] = []
        self.seconds = 0.0

    def choose_num_workers(self, networks: int) -> int:
        """The number of processes for `networks` networks: 1 if starting processes takes longer than their searches."""
        workers = choose_num_processes_per_device(
            self.environment.device, networks, max(1, num_available_cores() // self.environment.threads)
        )
        return workers if self.seconds * networks > _MIN_PARALLEL_SECONDS else 1

    def search_sequentially(self, trials: Sequence[TrialRecord]) -> None:
        """Search in this process."""
        for trial in trials:
            if self.context.should_stop():
                raise SearchStoppedError
            started = time.monotonic()
            self.seconds = 0.0
            progress = _ProgressStore(self.context, trial)
            try:
                record = search_layers_of_trial(
                    trial.spec,
                    trial.get_checkpoint_record(),
                    self.environment,
                    self.context.spec,
                    resume_from=progress.find_saved_sums_of_network(),
                    on_progress=progress.save_if_due_or_stopped,
                )
            except (DataError, ModelError) as error:
                self._record_error(trial, error)
            else:
                self.seconds = time.monotonic() - started
                self._save_search_record(trial, record, f" in {self.seconds:.1f} s")

    def search_in_parallel(self, trials: Sequence[TrialRecord], workers: int) -> None:
        """Search in processes without a database connection, which return their progress every few seconds."""
        try:
            self._search_in_pool(trials, workers)
        except BrokenProcessPool:
            raise TrialProcessLostError(
                "a process that searched layers ended unexpectedly, for instance because the machine is out of memory; "
                "finished networks are kept: run `bln-search search-layers` again to resume, with --workers 1 if a "
                "process ends again"
            ) from None

    def _search_in_pool(self, trials: Sequence[TrialRecord], workers: int) -> None:
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
            running = {
                self._submit_search(
                    pool, trial, _ProgressStore(self.context, trial).find_saved_sums_of_network()
                ): trial
                for trial in trials
            }
            try:
                while running:
                    finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in finished:
                        trial = running.pop(future)
                        sums = self._save_result(trial, future)
                        if sums is not None:
                            running[self._submit_search(pool, trial, sums)] = trial
                    if self.context.should_stop():
                        raise SearchStoppedError
            finally:
                self._save_last_results(running)

    def _submit_search(
        self, pool: ProcessPoolExecutor, trial: TrialRecord, sums: RunningScoreSums | None
    ) -> Future[LayerSearchRecord | RunningScoreSums]:
        return pool.submit(
            _search_layers_on_first_device,
            self.environment,
            trial.spec,
            trial.get_checkpoint_record(),
            self.context.spec,
            sums,
            _SLICE_SECONDS,
        )

    def _save_result(
        self, trial: TrialRecord, future: Future[LayerSearchRecord | RunningScoreSums]
    ) -> RunningScoreSums | None:
        """Save what a process returned; returns the sums of an enumeration that continues."""
        try:
            result = future.result()
        except (DataError, ModelError) as error:
            self._record_error(trial, error)
            return None
        if isinstance(result, RunningScoreSums):
            self.context.save_loss_sums(trial, result)
            self.context.on_progress(f"{trial.spec.label}: {result.done} of {result.total} mini-batches")
            return result
        self._save_search_record(trial, result)
        return None

    def _save_last_results(self, running: dict[Future[LayerSearchRecord | RunningScoreSums], TrialRecord]) -> None:
        """Cancel searches that have not started; wait for the others and save what they return."""
        for future, trial in running.items():
            if not future.cancel() and future.exception() is None:
                self._save_result(trial, future)

    def _save_search_record(self, trial: TrialRecord, record: LayerSearchRecord, duration: str = "") -> None:
        sha256 = trial.get_checkpoint_record().sha256
        self.context.ledger.layer_searches.save_record(trial.id, sha256, self.context.spec, record)
        self.finished += 1
        self.context.on_progress(f"{trial.spec.label}: layers searched{duration} ({self.finished}/{self.total})")

    def _record_error(self, trial: TrialRecord, error: DataError | ModelError) -> None:
        self.errors.append(type(error)(f"{trial.spec.label}: {error}"))
        self.context.on_progress(str(self.errors[-1]))


class _ProgressStore:
    """Loads and saves the progress of the enumeration of one network, and stops it on request."""

    def __init__(self, context: _ContextSharedByNetworks, trial: TrialRecord) -> None:
        self.context, self.trial = context, trial
        self.started_at = self.saved_at = time.monotonic()
        self.initial = 0

    def find_saved_sums_of_network(self) -> RunningScoreSums | None:
        """The sums that an earlier worker saved; None if there are none."""
        progress = self.context.ledger.layer_searches.find_saved_sums(self.trial.id, self.context.spec)
        if progress is None:
            return None
        sums, self.initial = progress
        return RunningScoreSums(sums.losses, sums.correct, sums.examples, self.initial)

    def save_if_due_or_stopped(self, sums: RunningScoreSums) -> None:
        """Save the sums if the last save was _SAVE_INTERVAL ago. Raises SearchStoppedError on request.

        Called after each group of mini-batches.
        """
        now = time.monotonic()
        stop = self.context.should_stop()
        if now - self.saved_at >= _SAVE_INTERVAL or stop:
            self.saved_at = now
            self.context.save_loss_sums(self.trial, sums)
            remaining = self._format_remaining_time(sums, now)
            self.context.on_progress(f"{self.trial.spec.label}: {sums.done} of {sums.total} mini-batches{remaining}")
        if stop:
            raise SearchStoppedError

    def _format_remaining_time(self, sums: RunningScoreSums, now: float) -> str:
        done = sums.done - self.initial
        if done < 1:
            return ""
        return f", about {(now - self.started_at) / done * (sums.total - sums.done):.0f} s left"


def _search_layers_on_first_device(
    environment: ExecutionEnvironment,
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    spec: LayerSearchSpec,
    sums: RunningScoreSums | None,
    seconds: float,
) -> LayerSearchRecord | RunningScoreSums:
    """`search_layers_within_time_slice` on the first device of the environment."""
    return search_layers_within_time_slice(
        trial, checkpoint, use_environment_in_this_process(environment), spec, sums, seconds
    )
