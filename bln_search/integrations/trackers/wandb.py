"""Studies in the files of offline runs of Weights & Biases, which `wandb sync` uploads."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import wandb

from bln_search.core.errors import TrackerError
from bln_search.core.states import TrialState
from bln_search.integrations.trackers.records import (
    Scalar,
    TrackedStudy,
    TrackedSummary,
    TrackedTrial,
    hash_values,
)
from bln_search.integrations.trackers.target import TrackerTarget

MARKER_FILE = "bln-search.json"
"""In the folder of a complete run: the digest of the trial, or that of the ranked table."""

TRIAL_KEY = "bln_search.trial"
TABLE_KEY = "ranked"
"""Names of the key of a trial in the config of its run, and of the ranked table in the history of another run."""

_RUNS_FOLDER = "wandb"
"""The folder below `wandb-offline:DIR` in which `wandb sync` looks for runs."""

CONTENT = "content"
_STAGING_PREFIX = ".bln-search-"
_ABANDONED_SECONDS = 86_400
_MAX_NAME_LENGTH = 128


class WandbOfflineTracker:
    """Writes a study as offline runs.

    The run of a trial is written when the trial has ended, in a temporary folder that is then renamed. Its id depends
    on the trial alone. An existing folder is complete, so it is not written again; `wandb sync` uploads it once.

    Args:
        target: The folder that has the folder `wandb`.
    """

    def __init__(self, target: TrackerTarget) -> None:
        self.target = target
        self._runs = target.folder / _RUNS_FOLDER

    def open_study(self, study: TrackedStudy) -> None:
        """Create the folder of the runs."""
        self._study = study
        with self._errors():
            self._runs.mkdir(parents=True, exist_ok=True)
            _remove_abandoned_folders(self.target.folder)

    def write_trial(self, trial: TrackedTrial) -> bool:
        """Write the run of a trial that has ended."""
        folder = self._run_folder(self._run_id(trial.key), trial.started_at)
        if not trial.has_ended or _read_marker(folder) == trial.digest:
            return False
        has_succeeded = trial.state is TrialState.FINISHED
        config = {**trial.parameters, TRIAL_KEY: trial.key}
        with self._new_run(folder, trial.label, trial.digest, config, has_succeeded=has_succeeded) as run:
            for epoch in trial.epochs:
                run.log({**epoch.metrics, "_timestamp": epoch.at.timestamp()}, step=epoch.epoch)
            run.summary.update({"state": trial.state.value, "reason": trial.reason})
        return True

    def write_summary(self, summary: TrackedSummary) -> bool:
        """Write a run with the ranked table and the verdict, in place of one with another content."""
        folder = self._run_folder(self._run_id(TABLE_KEY), self._study.started_at)
        if _read_marker(folder) == summary.digest:
            return False
        name = f"{self._study.name} {TABLE_KEY}"
        with self._new_run(folder, name, summary.digest, summary.verdict) as run:
            rows = [[*row] for row in summary.rows]
            table = wandb.Table(columns=[*summary.columns], data=rows, allow_mixed_types=True)
            run.log({TABLE_KEY: table})
            run.summary.update({"state": summary.state.value, **summary.verdict})
        return True

    def _run_id(self, key: str) -> str:
        return hash_values(self._study.key, key)[:16]

    def _run_folder(self, run_id: str, started_at: datetime) -> Path:
        return self._runs / f"offline-run-{started_at.astimezone(UTC):%Y%m%d_%H%M%S}-{run_id}"

    @contextmanager
    def _new_run(
        self, folder: Path, name: str, content: str, config: Mapping[str, Scalar], *, has_succeeded: bool = True
    ) -> Iterator[Any]:
        """Yield a new run, whose folder becomes `folder` when the block ends without an error."""
        with self._errors(), self._staging_folder() as staging:
            run = wandb.init(
                project=self._study.name,
                group=self._study.label,
                id=folder.name.rpartition("-")[2],
                name=name[:_MAX_NAME_LENGTH],
                config=dict(config),
                dir=str(staging),
                mode="offline",
                reinit="create_new",
                settings=_make_quiet_settings(),
            )
            try:
                yield run
            finally:
                run.finish(exit_code=0 if has_succeeded else 1)
            (written,) = (staging / _RUNS_FOLDER).glob("offline-run-*")
            for unused in ("logs", "tmp"):  # of this machine
                shutil.rmtree(written / unused, ignore_errors=True)
            (written / MARKER_FILE).write_text(json.dumps({CONTENT: content}))
            _replace_folder(written, folder, staging / "replaced")

    @contextmanager
    def _staging_folder(self) -> Iterator[Path]:
        folders = tempfile.TemporaryDirectory(
            dir=self.target.folder, prefix=_STAGING_PREFIX, ignore_cleanup_errors=True
        )
        with folders as folder:
            yield Path(folder)

    def close(self) -> None:
        """End the process of wandb."""
        wandb.teardown()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise TrackerError(f"{self.target} cannot be written: {error.strerror or error}{where}") from None
        except wandb.Error as error:
            raise TrackerError(f"{self.target} cannot be written: {error}") from None


def _make_quiet_settings() -> wandb.Settings:
    """Settings for a run of another time and place: nothing about this process.

    Offline tables are also copied to the data folder of wandb (`WANDB_DATA_DIR`), from where `wandb sync` uploads them.
    """
    return wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def _remove_abandoned_folders(folder: Path) -> None:
    """Remove temporary folders that killed processes left behind."""
    for staging in folder.glob(f"{_STAGING_PREFIX}*"):
        with suppress(OSError):
            if staging.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                shutil.rmtree(staging)


def _read_marker(folder: Path) -> str | None:
    """The content of a complete run; None where there is none."""
    try:
        return str(json.loads((folder / MARKER_FILE).read_text())[CONTENT])
    except (OSError, ValueError, KeyError):
        return None


def _replace_folder(written: Path, folder: Path, replaced: Path) -> None:
    """Rename a folder; one that exists, of an earlier state, moves away."""
    with suppress(FileNotFoundError):
        folder.rename(replaced)
    written.rename(folder)
