"""Per-layer configurations of the networks of a study, searched from their checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from bln_search.core.errors import DataError, ModelError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.evaluation.tree.running_sums import Sums
from bln_search.execution.environment import Place
from bln_search.execution.executors.cpu_limits import choose_workers, cores
from bln_search.search.layers.trial_search import search_slice, search_trial
from bln_search.specs.layer_search import LayersSpec
from bln_search.storage.layers import find_progress, is_searched, keep_progress, keep_search
from bln_search.storage.ledger import Ledger
from bln_search.storage.trained import TrainedTrial, trained_trials

_WRITTEN_EVERY = 20.0
"""Seconds between two times that an enumeration is written down."""

_SLICE = 10.0
"""Seconds that another process enumerates before it hands back what it has."""

_WORTH_WHILE = 20.0
"""Seconds of searches that are worth the start of processes."""

Say = Callable[[str], None]


class StoppedError(Exception):
    """The search was asked to stop; what it had added up is kept."""


def search_layers(
    ledger: Ledger,
    study_id: int,
    place: Place,
    asked: LayersSpec,
    say: Say,
    *,
    workers: int | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Search every trained network that has not been searched this way yet; returns how many were searched.

    say: told of every network, and of enumerations under way. workers: networks that are searched side by side, each
    in a process of its own; by default one a core, where the first network shows that it is worth it. stopping: looked
    at every now and then; what is added up by then is kept, and StoppedError raised.
    Raises DataError where nothing is trained yet; and, when all others are searched, DataError where a checkpoint is
    not on this machine or has too few mini-batches for its folds, ModelError where it cannot be cut at its layers.
    """
    trained = trained_trials(ledger.engine, study_id)
    if not trained:
        raise DataError("the study has no trained network yet: run it first")
    left = [one for one in trained if not is_searched(ledger.engine, one.id, asked)]
    before = len(trained) - len(left)
    search = _Search(ledger, place, asked, say, stopping, len(trained), before)
    if workers is None and left:
        search.one_by_one(left[:1])
        workers = search.worth_while(len(left) - 1)
        left = left[1:]
    if workers is not None and workers > 1 and len(left) > 1:
        search.side_by_side(left, min(workers, len(left)))
    else:
        search.one_by_one(left)
    if search.problems:
        first, count = search.problems[0], len(search.problems)
        raise type(first)(f"the layers of {count} of {len(trained)} networks were not searched: {first}")
    return search.done - before


class _Search:
    """Networks of a study being searched. of: all of them; done: those that are."""

    def __init__(
        self,
        ledger: Ledger,
        place: Place,
        asked: LayersSpec,
        say: Say,
        stopping: Callable[[], bool],
        of: int,
        done: int,
    ) -> None:
        self.ledger, self.place, self.asked, self.say, self.stopping = ledger, place, asked, say, stopping
        self.of, self.done = of, done
        self.problems: list[DataError | ModelError] = []
        self.seconds = 0.0

    def worth_while(self, left: int) -> int:
        """How many processes for so many networks: one where they are done before processes have started."""
        chosen = choose_workers(self.place.device, left, max(1, cores() // self.place.threads))
        return chosen if self.seconds * left > _WORTH_WHILE else 1

    def one_by_one(self, left: Sequence[TrainedTrial]) -> None:
        """In this process."""
        for one in left:
            if self.stopping():
                raise StoppedError
            started = time.monotonic()
            self.seconds = 0.0
            progress = _Progress(self.ledger, one, self.asked, self.say, self.stopping)
            try:
                record = search_trial(
                    one.spec, one.checkpoint, self.place, self.asked, sums=progress.begun(), keep=progress.keep
                )
            except (DataError, ModelError) as error:
                self._failed(one, error)
            else:
                self.seconds = time.monotonic() - started
                self._found(one, record, f" in {self.seconds:.1f} s")

    def side_by_side(self, left: Sequence[TrainedTrial], workers: int) -> None:
        """In processes that know nothing of the database; they hand back what they have every few seconds."""
        with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
            running = {self._submit(pool, one, self._begun(one)): one for one in left}
            try:
                while running:
                    finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in finished:
                        one = running.pop(future)
                        so_far = self._taken(one, future)
                        if so_far is not None:
                            running[self._submit(pool, one, so_far)] = one
                    if self.stopping():
                        raise StoppedError
            finally:
                self._take_last(running)

    def _submit(
        self, pool: ProcessPoolExecutor, one: TrainedTrial, sums: Sums | None
    ) -> Future[LayerSearchRecord | Sums]:
        return pool.submit(search_slice, one.spec, one.checkpoint, self.place, self.asked, sums, _SLICE)

    def _taken(self, one: TrainedTrial, future: Future[LayerSearchRecord | Sums]) -> Sums | None:
        """Write down what a process handed back; the sums where it is to go on."""
        try:
            handed = future.result()
        except (DataError, ModelError) as error:
            self._failed(one, error)
            return None
        if isinstance(handed, Sums):
            sha256, clock = one.checkpoint.sha256, self.ledger.clock()
            keep_progress(self.ledger.engine, one.id, sha256, self.asked, handed.of_all, handed.done, clock)
            self.say(f"{one.spec.label}: {handed.done} of {handed.total} mini-batches")
            return handed
        self._found(one, handed)
        return None

    def _take_last(self, running: dict[Future[LayerSearchRecord | Sums], TrainedTrial]) -> None:
        """What waits is not begun any more; what runs hands back what it has."""
        for future, one in running.items():
            if not future.cancel() and future.exception() is None:
                self._taken(one, future)

    def _begun(self, one: TrainedTrial) -> Sums | None:
        return _Progress(self.ledger, one, self.asked, self.say, self.stopping).begun()

    def _found(self, one: TrainedTrial, record: LayerSearchRecord, took: str = "") -> None:
        clock = self.ledger.clock()
        keep_search(self.ledger.engine, one.id, one.checkpoint.sha256, self.asked, record, clock)
        self.done += 1
        self.say(f"{one.spec.label}: layers searched{took} ({self.done}/{self.of})")

    def _failed(self, one: TrainedTrial, error: DataError | ModelError) -> None:
        self.problems.append(type(error)(f"{one.spec.label}: {error}"))
        self.say(str(self.problems[-1]))


class _Progress:
    """An enumeration under way: written down now and then, told of, stopped where that is asked for."""

    def __init__(
        self,
        ledger: Ledger,
        one: TrainedTrial,
        asked: LayersSpec,
        say: Say,
        stopping: Callable[[], bool],
    ) -> None:
        self.ledger, self.one, self.asked, self.say, self.stopping = ledger, one, asked, say, stopping
        self.started = self.written = time.monotonic()
        self.first = 0

    def begun(self) -> Sums | None:
        """What an earlier worker had added up."""
        found = find_progress(self.ledger.engine, self.one.id, self.asked)
        if found is None:
            return None
        sums, self.first = found
        return Sums(sums.losses, sums.correct, sums.examples, self.first)

    def keep(self, sums: Sums) -> None:
        """Behind each group of mini-batches."""
        now = time.monotonic()
        stop = self.stopping()
        if now - self.written >= _WRITTEN_EVERY or stop:
            self.written = now
            one, clock = self.one, self.ledger.clock()
            keep_progress(self.ledger.engine, one.id, one.checkpoint.sha256, self.asked, sums.of_all, sums.done, clock)
            self.say(f"{one.spec.label}: {sums.done} of {sums.total} mini-batches{self._left(sums, now)}")
        if stop:
            raise StoppedError

    def _left(self, sums: Sums, now: float) -> str:
        done = sums.done - self.first
        if done < 1:
            return ""
        return f", about {(now - self.started) / done * (sums.total - sums.done):.0f} s left"
