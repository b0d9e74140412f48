"""The execution environment of trials: folders, checkpoint store, device and threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bln_search.core.checkpoints import CheckpointStore
from bln_search.data import load_data_set, load_texts_of_length
from bln_search.data.catalog import get_catalog_entry
from bln_search.data.prepared import PreparedData, prepare_data_set
from bln_search.specs.sections.data import DataSpec


@dataclass(frozen=True)
class ExecutionEnvironment:
    """Where a trial runs.

    Attributes:
        data: Folder of data sets.
        cache: Folder of decoded data sets.
        checkpoints: Store of trained networks.
        device: Name of one or more devices, see `bln_search.execution.devices.resolve_device_name`.
        threads: CPU threads of one trial.
        gpu_fraction: Fraction of a GPU's memory that the process of a trial may use.
        save_seconds: Seconds between two saves of the state of a training, from which the next attempt resumes; 0 to
            save after every epoch; None to save nothing.
        trial_timeout: Seconds without progress after which the process of a trial is ended; None for no limit.
        runs_one_trial: No other trial runs in the process at the same time.
        cuda_graphs: On a GPU, record a step of trials that are trained as one program, and run the record.
    """

    data: Path
    cache: Path
    checkpoints: CheckpointStore
    device: str = "cpu"
    threads: int = 1
    gpu_fraction: float = 1.0
    save_seconds: float | None = None
    trial_timeout: float | None = None
    runs_one_trial: bool = True
    cuda_graphs: bool = False

    @property
    def peak_memory_device(self) -> str | None:
        """The device whose peak memory is that of a trial; None where trials share a process."""
        return self.device if self.runs_one_trial else None


@lru_cache(maxsize=1)
def load_and_prepare_data(spec: DataSpec, data: Path, cache: Path, device: str) -> PreparedData:
    """Load and prepare a study's data on the device; the last result is cached for the next trial of the study."""
    entry = get_catalog_entry(spec.name)
    if entry.prepare is not None:
        prepared: PreparedData = entry.prepare(entry.list_search_folders(data), spec, device)
        return prepared
    return prepare_data_set(
        load_data_set(spec.name, data, cache, spec.own_options),
        spec,
        device,
        load_texts=lambda length: load_texts_of_length(spec.name, length, data, cache, spec.own_options),
    )
