"""Searches per-layer configurations of the trained networks of a study."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context

from bln_search.core.errors import DataError, ModelError, TrialProcessLostError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.records import CheckpointRecord
from bln_search.evaluation.tree.score_sums import RunningScoreSums
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
_Search = Future[LayerSearchRecord | RunningScoreSums]


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
    job = _SearchJob(ledger, spec, environment, on_progress, should_stop, len(trained), finished_before)
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


@dataclass
class _SearchJob:
    """Searches the networks of a study.

    Attributes:
        ledger: Ledger with the study.
        spec: What to search.
        environment: Where the search runs.
        on_progress: Called with a line about the progress.
        should_stop: Whether to stop now.
        total: Number of trained networks.
        finished: Number of networks that are searched.
        errors: Of the networks that cannot be searched.
        seconds: Duration of the last search in this process.
    """

    ledger: Ledger
    spec: LayerSearchSpec
    environment: ExecutionEnvironment
    on_progress: OnProgress
    should_stop: Callable[[], bool]
    total: int
    finished: int
    errors: list[DataError | ModelError] = field(default_factory=list)
    seconds: float = 0.0

    def choose_num_workers(self, networks: int) -> int:
        """The number of processes for `networks` networks: 1 if starting processes takes longer than their searches."""
        workers = choose_num_processes_per_device(
            self.environment.device, networks, max(1, num_available_cores() // self.environment.threads)
        )
        return workers if self.seconds * networks > _MIN_PARALLEL_SECONDS else 1

    def search_sequentially(self, trials: Sequence[TrialRecord]) -> None:
        for trial in trials:
            if self.should_stop():
                raise SearchStoppedError
            started = time.monotonic()
            self.seconds = 0.0
            sums = self._find_saved_sums(trial)
            try:
                record = search_layers_of_trial(
                    trial.spec,
                    trial.get_checkpoint_record(),
                    self.environment,
                    self.spec,
                    resume_from=sums,
                    on_progress=self._make_saver(trial, 0 if sums is None else sums.done),
                )
            except (DataError, ModelError) as error:
                self._record_error(trial, error)
            else:
                self.seconds = time.monotonic() - started
                self._save_search_record(trial, record, f" in {self.seconds:.1f} s")

    def _find_saved_sums(self, trial: TrialRecord) -> RunningScoreSums | None:
        """The sums of the enumeration of a network that an earlier worker saved; None if there are none."""
        progress = self.ledger.layer_searches.find_saved_sums(trial.id, self.spec)
        if progress is None:
            return None
        sums, done = progress
        return RunningScoreSums(sums.losses, sums.correct, sums.examples, done)

    def _make_saver(self, trial: TrialRecord, initial: int) -> Callable[[RunningScoreSums], None]:
        """Return what is called after each group of mini-batches: it saves the sums and stops on request.

        Args:
            trial: The trial of the network.
            initial: Number of mini-batches in the sums at the start.
        """
        started_at = saved_at = time.monotonic()

        def save_if_due_or_stopped(sums: RunningScoreSums) -> None:
            nonlocal saved_at
            now, stop = time.monotonic(), self.should_stop()
            if now - saved_at >= _SAVE_INTERVAL or stop:
                saved_at = now
                done = sums.done - initial
                seconds = (now - started_at) / done * (sums.total - sums.done) if done else 0.0
                self._save_loss_sums(trial, sums, f", about {seconds:.0f} s left" if done else "")
            if stop:
                raise SearchStoppedError

        return save_if_due_or_stopped

    def _save_loss_sums(self, trial: TrialRecord, sums: RunningScoreSums, remaining: str = "") -> None:
        sha256 = trial.get_checkpoint_record().sha256
        self.ledger.layer_searches.save_progress(trial.id, sha256, self.spec, sums.fold_score_sums, sums.done)
        self.on_progress(f"{trial.spec.label}: {sums.done} of {sums.total} mini-batches{remaining}")

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

            def submit(trial: TrialRecord, sums: RunningScoreSums | None) -> _Search:
                checkpoint = trial.get_checkpoint_record()
                return pool.submit(
                    _search_layers_on_first_device,
                    *(self.environment, trial.spec, checkpoint, self.spec, sums, _SLICE_SECONDS),
                )

            running = {submit(trial, self._find_saved_sums(trial)): trial for trial in trials}
            try:
                while running:
                    finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in finished:
                        trial = running.pop(future)
                        sums = self._save_result(trial, future)
                        if sums is not None:
                            running[submit(trial, sums)] = trial
                    if self.should_stop():
                        raise SearchStoppedError
            finally:
                for future, trial in running.items():  # those that have not started are cancelled
                    if not future.cancel() and future.exception() is None:
                        self._save_result(trial, future)

    def _save_result(self, trial: TrialRecord, future: _Search) -> RunningScoreSums | None:
        """Save what a process returned; returns the sums of an enumeration that continues."""
        try:
            result = future.result()
        except (DataError, ModelError) as error:
            self._record_error(trial, error)
            return None
        if isinstance(result, RunningScoreSums):
            self._save_loss_sums(trial, result)
            return result
        self._save_search_record(trial, result)
        return None

    def _save_search_record(self, trial: TrialRecord, record: LayerSearchRecord, duration: str = "") -> None:
        sha256 = trial.get_checkpoint_record().sha256
        self.ledger.layer_searches.save_record(trial.id, sha256, self.spec, record)
        self.finished += 1
        self.on_progress(f"{trial.spec.label}: layers searched{duration} ({self.finished}/{self.total})")

    def _record_error(self, trial: TrialRecord, error: DataError | ModelError) -> None:
        self.errors.append(type(error)(f"{trial.spec.label}: {error}"))
        self.on_progress(str(self.errors[-1]))


def _search_layers_on_first_device(
    environment: ExecutionEnvironment,
    trial: TrialSpec,
    checkpoint: CheckpointRecord,
    spec: LayerSearchSpec,
    sums: RunningScoreSums | None,
    seconds: float,
) -> LayerSearchRecord | RunningScoreSums:
    return search_layers_within_time_slice(
        trial, checkpoint, use_environment_in_this_process(environment), spec, sums, seconds
    )
