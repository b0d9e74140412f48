"""The parts that Ray Tune is given: a trainable, a searcher, a scheduler, a callback."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from bln_search.core.records import EpochRecord
from bln_search.execution.environment import Place
from bln_search.execution.executors.base import failed
from bln_search.execution.executors.ray.environment import prepare_environment
from bln_search.execution.messages import ENDS, Message, Task
from bln_search.execution.trial import run_task

prepare_environment()

import ray  # noqa: E402
import ray.tune.tune  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig  # noqa: E402
from ray.tune.schedulers import FIFOScheduler  # noqa: E402
from ray.tune.search import Searcher  # noqa: E402

_NEWS = 2.0
"""Seconds between two results of a trial at least, as each costs Tune some milliseconds."""


_MANY = 100_000
"""Tune's own bound of trials side by side: the searcher has one that follows the cluster."""


def _spare_the_collector() -> None:
    """Put what Ray, torch and their kin have loaded out of the garbage collector's way: a full round takes 0.1 s."""
    gc.collect()
    gc.freeze()


def limit_gpu_memory(task: Task, gpus: float) -> None:
    """A trial with a part of a GPU takes that part of its memory at most; one that runs alone takes what there is."""
    if 0 < gpus < 1:
        torch.cuda.set_per_process_memory_fraction(1.0 if task.alone else gpus)


Steps = Generator[EpochRecord | None, None, None]


class TaskTrainable(tune.Trainable):
    """A worker process: one task after another.

    A prunable task takes a step for each epoch. Any other stands still for news every two seconds, at the end of an
    epoch, and before its evaluation, so that its checkpoint is known, unless its training was shorter than that.
    """

    task: Task
    place: Place
    steps: Steps | None
    messages: list[Message]
    began: float
    tasks = 0

    def setup(self, config: dict[str, Any]) -> None:
        """The first task."""
        self._take(config)

    def _take(self, config: dict[str, Any]) -> None:
        if self.tasks < 2:  # the first task loads what the ones after it use
            _spare_the_collector()
        self.tasks += 1
        self.task, self.place, self.steps, self.messages = config["task"], config["place"], None, []
        self.spoilt: Exception | None = None
        limit_gpu_memory(self.task, config.get("gpus", 0))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """The next task, in the same process."""
        if self.steps is not None:
            self.steps.close()
        self._take(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Go on for a while, or to the end; what happened goes along as messages.

        Raises what spoilt this process, once all messages before it are told: Tune ends the process then.
        """
        if self.spoilt is not None:
            raise self.spoilt
        start = time.monotonic()
        if self.steps is None:
            self.began = start
            self.steps = run_task(self.task, self.place, self.messages.append)
        try:
            for record in self.steps:
                since = self.began if record is None else start
                if self.task.prunable or time.monotonic() - since > _NEWS:
                    break
        except Exception as error:
            failure = failed(error)
            if not failure.process_spoilt:
                self.messages.append(failure)
            elif not self.messages:
                raise
            else:
                self.spoilt = error
        said, self.messages[:] = list(self.messages), []
        return {"messages": said, "done": any(isinstance(one, ENDS) for one in said)}

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What Tune adds to a result, without the task itself."""
        filled: dict[str, Any] = super().get_auto_filled_metrics(*args, **kwargs)
        filled.pop("config", None)
        return filled

    def log_result(self, result: dict[str, Any]) -> None:
        """Nothing: results go to the ledger."""


class _Unwritten:
    """Tune writes its parts to files and copies them; these hold a driver's methods and are left out."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


class TaskSearcher(_Unwritten, Searcher):
    """Hands tasks to Tune."""

    def __init__(
        self, place: Place, next_task: Callable[[], Task | None], busy: Callable[[], bool], gpus: float = 0
    ) -> None:
        super().__init__(metric="done", mode="max")
        self.place, self.next_task, self.busy, self.gpus = place, next_task, busy, gpus

    def suggest(self, trial_id: str) -> Any:  # noqa: ARG002
        """The next task; None where there is none now, FINISHED where there will be none."""
        task = self.next_task()
        if task is None:
            return None if self.busy() else Searcher.FINISHED
        return {"task": task, "place": self.place, "gpus": self.gpus}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:  # noqa: FBT001, FBT002
        """Nothing: the callback hears of it."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the truth."""

    def get_state(self) -> dict[str, Any]:
        """Nothing: the ledger is the truth."""
        return {}


class TaskScheduler(_Unwritten, FIFOScheduler):
    """First come, first served; a trial whose driver says stop is stopped between two epochs."""

    def __init__(self, hear: Callable[[Any, dict[str, Any]], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.hear = hear

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:  # noqa: ARG002
        """Hand the messages of a result over; what is said of them decides."""
        return str(self.STOP if self.hear(trial, result) else self.CONTINUE)


class TaskCallback(_Unwritten, tune.Callback):
    """Tells the driver what Tune does."""

    def __init__(
        self,
        pulse: Callable[[], None],
        started: Callable[[Any], None],
        hear: Callable[[Any, dict[str, Any]], bool],
        lost: Callable[[Any, str], None],
    ) -> None:
        self.pulse, self.started, self.hear, self.lost = pulse, started, hear, lost

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:  # noqa: ARG002
        """Between two events."""
        self.pulse()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        """A trial has a process."""
        self.started(trial)

    def on_trial_result(
        self,
        iteration: int,  # noqa: ARG002
        trials: list[Any],  # noqa: ARG002
        trial: Any,
        result: dict[str, Any],
        **info: Any,  # noqa: ARG002
    ) -> None:
        """The last result of a trial passes no scheduler; hand its messages over too."""
        self.hear(trial, result)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:  # noqa: ARG002
        """A trial's process has died, or could not start."""
        self.lost(trial, _reason(trial))

    def get_state(self) -> None:
        """Nothing: the ledger is the truth."""


def make_tuner(
    searcher: TaskSearcher,
    scheduler: TaskScheduler,
    callback: TaskCallback,
    *,
    resources: dict[str, float],
    storage: str,
) -> tune.Tuner:
    """Tune with these parts, processes kept from trial to trial, no files but a few in `storage`."""
    numbers = itertools.count()
    return tune.Tuner(
        tune.with_resources(TaskTrainable, resources),
        tune_config=TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            reuse_actors=True,
            num_samples=-1,
            max_concurrent_trials=_MANY,
            trial_name_creator=lambda _: f"trial{next(numbers)}",
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=RunConfig(
            name="study",
            storage_path=storage,
            verbose=0,
            callbacks=[callback],
            failure_config=FailureConfig(max_failures=0),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
        ),
    )


def end_actor(actor: Any) -> None:
    """End a process at once; it may be gone, and the cluster with it."""
    with suppress(Exception):
        ray.kill(actor, no_restart=True)


def _reason(trial: Any) -> str:
    """What Tune knows of the end of a trial's process. It is not in its storage yet, but in a file beside."""
    try:
        with open(trial.pickled_error_file, "rb") as stream:  # noqa: PTH123 - Tune gives a plain name
            error = ray.cloudpickle.load(stream)
    except (OSError, TypeError):
        return "the worker process ended"
    first = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return f"the worker process ended ({type(error).__name__}: {first[:200]})"


@contextmanager
def steady_actors(is_there: Callable[[], bool]) -> Iterator[None]:
    """While this context is open, a process that is still starting keeps its first trial.

    Tune would give that trial to the process that is free first and end the one that starts; where trials are shorter
    than a start (1-3 s) one process would do all the work. Tune has no setting for it: its controller is overridden,
    where the version at hand has the parts that this needs. is_there: can the cluster be asked to clean up?
    """
    tune_module: Any = ray.tune.tune
    base: Any = tune_module.TuneController
    if not hasattr(base, "_maybe_reuse_cached_actor"):
        yield
        return

    controllers: list[Any] = []

    class SteadyController(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            controllers.append(self)

        def _maybe_reuse_cached_actor(self, trial: Any) -> bool:
            own = self._trial_to_actor.get(trial)
            starting = own is not None and trial not in self._resetting_trials
            if starting and self._actor_manager.is_actor_started(own):
                return False  # it has its resources; one that waits for them may be taken over
            return bool(super()._maybe_reuse_cached_actor(trial))

    tune_module.TuneController = SteadyController
    try:
        yield
    finally:
        tune_module.TuneController = base
        for controller in controllers:
            with suppress(Exception):
                _let_go(controller._actor_manager._resource_manager, is_there=is_there())


def _let_go(reserved: Any, *, is_there: bool) -> None:
    """What a controller that was left by an exception has reserved stays reserved, unless it is given back.

    A cluster that is gone cannot be told, and a manager that is deleted with something reserved would wait for it.
    """
    if is_there:
        reserved.clear()
    else:
        reserved.__init__()
