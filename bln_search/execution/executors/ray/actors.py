"""Starts and ends the worker processes (actors) of Ray Tune where Tune itself does it unsuitably."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bln_search.execution.executors.ray.environment import set_ray_environment_variables

set_ray_environment_variables()

import ray  # noqa: E402
import ray.tune.tune  # noqa: E402


def kill_actor(actor: Any) -> None:
    """Kill a process; the process or the cluster may be gone already."""
    with suppress(Exception):
        ray.kill(actor, no_restart=True)


@contextmanager
def keep_first_trial_of_starting_actors(is_responsive: Callable[[], bool]) -> Iterator[None]:
    """Inside this context a process that is still starting keeps its first trial.

    Tune assigns that trial to the first idle process and ends the starting one; with trials shorter than a start
    (1-3 s) one process would run all of them. Tune has no setting for this, so the context overrides its controller if
    the installed version has the methods that the override needs.

    Args:
        is_responsive: Does the cluster respond, so that its reservations can be released afterwards?
    """
    tune_module: Any = ray.tune.tune
    base: Any = tune_module.TuneController
    if not hasattr(base, "_maybe_reuse_cached_actor"):
        yield
        return

    controllers: list[Any] = []

    class StartingActorController(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            controllers.append(self)

        def _maybe_reuse_cached_actor(self, trial: Any) -> bool:
            actor = self._trial_to_actor.get(trial)
            starting = actor is not None and trial not in self._resetting_trials
            if starting and self._actor_manager.is_actor_started(actor):
                return False  # the process has its resources; a trial that waits for them may move to another process
            return bool(super()._maybe_reuse_cached_actor(trial))

    tune_module.TuneController = StartingActorController
    try:
        yield
    finally:
        tune_module.TuneController = base
        for controller in controllers:
            with suppress(Exception):
                _release_reserved_resources(controller._actor_manager._resource_manager, is_responsive=is_responsive())


def _release_reserved_resources(resource_manager: Any, *, is_responsive: bool) -> None:
    """Release the resources of a controller that an exception ended; otherwise they stay reserved.

    If the cluster is gone, only the manager's records are dropped: it would wait for the cluster when it is deleted.
    """
    if is_responsive:
        resource_manager.clear()
    else:
        resource_manager.__init__()
