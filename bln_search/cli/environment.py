"""Environment and executor of trials, from options and settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bln_search.cli.options import ExecutorName
from bln_search.settings import Settings, load_settings

if TYPE_CHECKING:
    from bln_search.execution.environment import ExecutionEnvironment
    from bln_search.execution.executors.base import Executor
    from bln_search.storage.ledger import Ledger


def make_execution_environment(
    settings: Settings, data: Path | None = None, device: str | None = None, *, elsewhere: bool = False
) -> ExecutionEnvironment:
    """Return folders and device of the trials.

    Args:
        settings: Used for everything without an option.
        data: Folder of data sets.
        device: Device; `auto` for the best one.
        elsewhere: The trials run on other machines, so the device may be absent here.

    Raises:
        ModelError: The device does not exist.
    """
    from bln_search.execution.devices import resolve_device_name
    from bln_search.execution.environment import ExecutionEnvironment

    return ExecutionEnvironment(
        data=data or settings.data_folder,
        cache=settings.cache,
        checkpoints=settings.checkpoint_store,
        device=resolve_device_name(device or settings.device, elsewhere=elsewhere),
        threads=settings.threads,
        save_seconds=settings.save_seconds,
        trial_timeout=settings.trial_timeout_seconds,
        cuda_graphs=settings.cuda_graphs,
    )


def check_executor_options(
    executor: ExecutorName | None,
    ray_address: str | None,
    gpus_per_trial: float | None,
    trials_per_process: int | None,
) -> None:
    """Raise BadParameter for an option of another executor: trials would run elsewhere, or one by one."""
    if executor is not ExecutorName.RAY and (ray_address or gpus_per_trial is not None):
        raise typer.BadParameter("these options need --executor ray", param_hint="--ray-address, --gpus-per-trial")
    if executor is ExecutorName.LOCAL and trials_per_process is not None:
        raise typer.BadParameter("this option needs --executor fused or ray", param_hint="--fused-trials")


def choose_executor_name(executor: ExecutorName | None, device: str, trials_per_gpu: int) -> ExecutorName:
    """Return the executor that is asked for, otherwise the faster one: `fused` on a GPU, `local` on another device.

    Several processes on each GPU are asked for with `trials_per_gpu`, which is then their number of trials.
    """
    from bln_search.execution.devices import is_gpu

    if executor is not None:
        return executor
    return ExecutorName.FUSED if is_gpu(device) and trials_per_gpu == 1 else ExecutorName.LOCAL


def make_executor(
    executor: ExecutorName | None,
    environment: ExecutionEnvironment,
    workers: int | None,
    ray_address: str | None,
    gpus_per_trial: float | None,
    trials_per_gpu: int | None,
    trials_per_process: int | None,
) -> AbstractContextManager[Executor]:
    """Return the executor; a Ray cluster that does not exist or is too small raises an error on entering.

    Args:
        executor: Kind of executor; None for `choose_executor_name`.
        environment: Folders and device of the trials.
        workers: Number of trials at the same time; by default one for each core or GPU.
        ray_address: Cluster to join, `host:port`; by default a new one is started.
        gpus_per_trial: GPUs, or the fraction of one, for each trial on Ray; by default from `trials_per_gpu`.
        trials_per_gpu: Number of trials at the same time on each GPU; by default that of the settings.
        trials_per_process: Number of trials that a process trains together; by default that for the device with
            `fused`, 1 with `ray`.
    """
    trials_per_gpu = trials_per_gpu or load_settings().trials_per_gpu
    executor = choose_executor_name(executor, environment.device, trials_per_gpu)
    check_executor_options(executor, ray_address, gpus_per_trial, trials_per_process)
    if executor is ExecutorName.RAY:
        from bln_search.execution.executors.ray.executor import RayExecutor

        if gpus_per_trial is None and environment.device == "cuda":
            gpus_per_trial = 1 / trials_per_gpu
        return RayExecutor(
            environment,
            workers,
            address=ray_address,
            gpus_per_trial=gpus_per_trial,
            trials_per_process=trials_per_process or 1,
        )
    from bln_search.execution.executors.local import LocalExecutor, choose_num_fused_trials

    if trials_per_process is not None:
        fused = {"trials_per_process": trials_per_process, "informing_trials_per_process": trials_per_process}
    elif executor is ExecutorName.FUSED:
        fused = {"trials_per_process": choose_num_fused_trials(environment.device)}
    else:
        fused = {}
    return nullcontext(LocalExecutor(environment, workers, trials_per_gpu=trials_per_gpu, **fused))


def make_study_tracking(
    settings: Settings, ledger: Ledger, environment: ExecutionEnvironment
) -> Callable[[int], AbstractContextManager[None]]:
    """Return what writes a study, by its number, to the tracker of the settings inside a block; nothing without one.

    Raises:
        MissingPackageError: The extra of the tracker is not installed.
    """
    target = settings.tracker_target
    if target is None:
        return lambda _study_id: nullcontext()
    from bln_search.integrations.trackers.tracker import check_tracker_installed
    from bln_search.worker.tracking.live import track_study

    check_tracker_installed(target)
    return partial(track_study, ledger=ledger, target=target, environment=environment)
