"""A worker of a service: takes one study after another from the queue and carries it out."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from bln_search.core.errors import (
    BlnSearchError,
    ClusterError,
    DataError,
    ModelError,
    SchemaChangedError,
    SpecError,
    StudyLostError,
    UnknownStudyError,
)
from bln_search.core.states import StudyState
from bln_search.core.version import VERSION
from bln_search.execution.environment import Place
from bln_search.execution.executors.base import Executor
from bln_search.execution.messages import ENDS, Message, TaskFailed
from bln_search.search.preflight import check_study
from bln_search.specs.trial import TrialSpec
from bln_search.storage.analyses import claim_analysis, release_analysis
from bln_search.storage.belonging import mark
from bln_search.storage.ledger import Ledger
from bln_search.storage.queue import SEEN, Queue
from bln_search.storage.worker_errors import record_worker_error
from bln_search.worker.analysis import Attended, analyze
from bln_search.worker.identity import is_alive, own_name
from bln_search.worker.layer_search import StoppedError
from bln_search.worker.run import run_study

_log = logging.getLogger(__name__)
_IDLE = 1.0
"""Seconds between two looks at an empty queue."""

_AFTER_ERROR = 10.0
"""Seconds to wait where the database or the disk does not do its part, or after an error that nobody foresaw."""

_ERRORS = 2
"""Errors nobody foresaw, without a trial ended in between, after which a study counts as failed."""

_MACHINE_ERRORS = 5
"""As many of errors that speak of the machine, like the workers that may die on a study."""


class Worker:
    """Takes studies until it is told to stop. cap: running studies of one owner.

    lacking_room: why nothing is to be begun now, None where there is room on the disk.
    """

    def __init__(
        self,
        ledger: Ledger,
        place: Place,
        executor: Executor,
        cap: int,
        lacking_room: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.ledger, self.place, self.executor, self.cap = ledger, place, executor, cap
        self.lacking_room = lacking_room
        self.short_of_room = False
        self.queue = Queue(ledger)
        self.name = own_name()
        self.stopping = threading.Event()
        self.study_id: int | None = None

    def work(self, *, once: bool = False) -> None:
        """Until SIGTERM or Ctrl-C: the study under way is handed back. once: until none waits.

        Raises ClusterError where the cluster is gone: a process joins one only once, so whoever watches over this one
        starts another. Raises SchemaChangedError where the database was upgraded meanwhile.
        """
        with _Stop(self.stopping), _Presence(self):
            while not self.stopping.is_set():
                try:
                    if not self._has_room():
                        self.stopping.wait(_AFTER_ERROR)
                        continue
                    self.ledger.check_schema()
                    study_id = self.queue.claim(self.name, is_alive, self.cap)
                    self.study_id = study_id
                    if study_id is not None:
                        self._carry_out(study_id)
                        self.study_id = None
                    elif self._work_out():
                        continue
                    elif once:
                        return
                    else:
                        self.stopping.wait(_IDLE)
                except KeyboardInterrupt:
                    self.stopping.set()
                except (ClusterError, SchemaChangedError):
                    raise
                except BlnSearchError as error:
                    self.study_id = None
                    _log.error("%s; going on in %.0f seconds", error, _AFTER_ERROR)
                    self.stopping.wait(_AFTER_ERROR)

    def _has_room(self) -> bool:
        """Is there room to begin something? What changes is said once."""
        lacking = self.lacking_room()
        if lacking is not None and not self.short_of_room:
            _log.error("%s: no study is taken before there is room; `bln-search checkpoints clean` frees some", lacking)
        elif lacking is None and self.short_of_room:
            _log.warning("there is room again")
        self.short_of_room = lacking is not None
        return lacking is None

    def _carry_out(self, study_id: int) -> None:
        """One study. What is wrong with it makes it fail; what is wrong here leaves it to others."""
        about = {"study_id": study_id}
        _log.info("study %d: taken", study_id, extra=about)
        try:
            for remark in check_study(self.ledger.study(study_id).spec, self.place):
                _log.warning("study %d: %s", study_id, remark, extra=about)
            mark(self.place.checkpoints, self.ledger.engine)
            watcher, stopping = _Log(study_id), self.stopping.is_set
            state = run_study(self.ledger, study_id, self.executor, watcher, stopping, self.lacking_room)
        except (SpecError, DataError, ModelError) as error:
            _log.warning("study %d: %s", study_id, error, extra=about)
            self.ledger.fail_study(study_id, self.name, str(error))
        except StudyLostError as error:
            _log.warning("study %d: %s", study_id, error, extra=about)
        except SchemaChangedError:
            raise
        except BlnSearchError:
            self._hand_back(study_id)
            raise
        except Exception as error:  # noqa: BLE001 - one bad study must not end the worker
            _log.exception("study %d: unforeseen", study_id, extra=about)
            self._give_up(study_id, error)
        else:
            _log.info("study %d: %s", study_id, state, extra=about)
            if state is StudyState.COMPLETE:
                self._work_out(study_id)
            # something is left that could not be done here and now; where room lacks, the next look waits anyway
            if state is StudyState.ACCEPTED and self._has_room():
                self.stopping.wait(_AFTER_ERROR)

    def _work_out(self, wanted: int | None = None) -> bool:
        """The results of a complete study, of this one or of any; False where others have, or are at it."""
        study_id = claim_analysis(self.ledger.engine, self.name, self.ledger.clock(), wanted)
        if study_id is None:
            return False
        self.study_id = study_id
        _log.info("study %d: being analysed", study_id, extra={"study_id": study_id})
        try:
            self._analyze(study_id)
        finally:
            self.study_id = None
            with suppress(BlnSearchError):  # else its lease runs out
                release_analysis(self.ledger.engine, self.name, study_id)
        return True

    def _analyze(self, study_id: int) -> None:
        def say(line: str) -> None:
            _log.info("study %d: %s", study_id, line, extra={"study_id": study_id})

        try:
            analyze(self.ledger, study_id, self.place, Attended(say, stopping=self.stopping.is_set))
        except StoppedError:
            _log.info("study %d: another worker goes on with its analysis", study_id, extra={"study_id": study_id})
        except UnknownStudyError:
            _log.info("study %d: deleted before it was analysed", study_id, extra={"study_id": study_id})

    def _give_up(self, study_id: int, error: Exception) -> None:
        """Hand the study back after an error nobody foresaw, for another try; it has failed where there were enough."""
        machine = isinstance(error, OSError | EOFError | MemoryError)
        reason = f"{type(error).__name__}: {error}"
        most = _MACHINE_ERRORS if machine else _ERRORS
        if not record_worker_error(self.ledger, study_id, self.name, reason, most):
            self._hand_back(study_id)
        self.stopping.wait(_AFTER_ERROR)

    def _hand_back(self, study_id: int) -> None:
        try:
            self.ledger.end_study(study_id, exhausted=False, runner=self.name)
        except BlnSearchError as error:
            _log.warning("study %d: not handed back (%s); its lease runs out", study_id, error)


class _Log:
    """Says how a study goes."""

    def __init__(self, study_id: int) -> None:
        self.study_id = study_id

    def planned(self, trials: int) -> None:
        """So many trials are left to do."""
        _log.info("study %d: %d trials to do", self.study_id, trials, extra={"study_id": self.study_id})

    def heard(self, trial: TrialSpec, message: Message) -> None:
        """A trial ended."""
        if isinstance(message, ENDS):
            about = {"study_id": self.study_id, "trial": trial.key}
            outcome = message.reason if isinstance(message, TaskFailed) else type(message).__name__
            _log.info("study %d: %s: %s", self.study_id, trial.label, outcome, extra=about)


class _Presence:
    """Says every few seconds that the worker is there, from a thread of its own."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._say, daemon=True, name="presence")

    def __enter__(self) -> None:
        self._once()
        self.thread.start()

    def __exit__(self, *_error: object) -> None:
        self.ended.set()
        self.thread.join()
        self._quietly(self._sign_out)

    def _say(self) -> None:
        while not self.ended.wait(SEEN.total_seconds() / 3):
            self._once()

    def _once(self) -> None:
        self._quietly(self._beat)
        self._quietly(self._sign_in)

    def _beat(self) -> None:
        """Data may take long to decode before the first trial starts."""
        worker = self.worker
        study_id = worker.study_id
        if study_id is not None:
            worker.ledger.check_schema()
            worker.ledger.heartbeat([], study_id, worker.name)

    def _sign_in(self) -> None:
        self.worker.ledger.check_schema()
        self.worker.queue.sign_in(self.worker.name, self.worker.place.device, VERSION)

    def _sign_out(self) -> None:
        self.worker.ledger.check_schema()
        self.worker.queue.sign_out(self.worker.name)

    @staticmethod
    def _quietly(say: Callable[[], None]) -> None:
        try:
            say()
        except SchemaChangedError:
            return  # the worker itself says so
        except BlnSearchError as error:
            _log.warning("%s", error)


class _Stop:
    """SIGTERM and Ctrl-C between two studies; within one the run itself heeds them. A second signal ends at once."""

    def __init__(self, stopping: threading.Event) -> None:
        self.stopping = stopping

    def __enter__(self) -> None:
        self.before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self.stopping.is_set():
            raise KeyboardInterrupt
        self.stopping.set()
