"""Exports of trained networks, which workers of the service build."""

from __future__ import annotations

import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from bln_search.client.errors import ServiceError
from bln_search.client.http_session import ServiceHttpSession
from bln_search.core.files.atomic import compute_file_sha256, copy_atomically

_POLL = 0.5
"""Seconds between two requests for the state of an export."""

_SHOWN_FIELDS = ("state", "step", "waiting_before", "has_worker")
"""Fields of an export that change while it waits."""

Export = dict[str, Any]


class NetworkExportsClient:
    """Exports of trained networks. Every method raises ServiceError as `Client` does.

    Example:
        export = client.exports.request(study_id)
        client.exports.download(client.exports.wait(study_id, export["id"]), "network.zip")
    """

    def __init__(self, session: ServiceHttpSession) -> None:
        self._session = session

    def request(self, study_id: int, **fields: Any) -> Export:
        """Request an export and return it; the same request is the same export.

        Args:
            study_id: The study.
            fields: `configuration` (`recommended`, `best` or a code), `estimate`, `arm`, `batch_size`, `parameters` and
                `seed` of the row, `format` (`all`, `safetensors`, `torch_export`, `onnx`).
        """
        body = {name: value for name, value in fields.items() if value is not None}
        return self._session.request_json("POST", f"/studies/{study_id}/exports", json=body)

    def list_exports(self, study_id: int) -> list[Export]:
        """Return the exports of a study that were requested last, newest first."""
        return list(self._session.request_json("GET", f"/studies/{study_id}/exports")["items"])

    def get(self, study_id: int, export_id: int) -> Export:
        """Return an export."""
        return self._session.request_json("GET", f"/studies/{study_id}/exports/{export_id}")

    def wait(
        self,
        study_id: int,
        export_id: int,
        *,
        timeout: float = 3600.0,
        worker_timeout: float = 60.0,
        on_change: Callable[[Export], None] = lambda _export: None,
    ) -> Export:
        """Wait until an export is ready, and return it.

        Args:
            study_id: The study.
            export_id: The export.
            timeout: Seconds to wait.
            worker_timeout: Seconds to wait while no worker is alive; one that restarts is away for a moment.
            on_change: Called with the export when its state, step or place in the queue changes, or whether a worker is
                alive.

        Raises:
            ServiceError: The export has failed or expired, no worker is alive, or the time is over.
        """
        deadline = time.monotonic() + timeout
        worker_seen_at, shown = time.monotonic(), None
        while True:
            export = self.get(study_id, export_id)
            state = export["state"]
            if (progress := [export[name] for name in _SHOWN_FIELDS]) != shown:
                shown = progress
                on_change(export)
            if state == "ready":
                return export
            if state not in ("requested", "running"):
                raise ServiceError(f"export {export_id} is {state}: {export['reason'] or 'request it again'}")
            now = time.monotonic()
            worker_seen_at = now if export["has_worker"] else worker_seen_at
            if now - worker_seen_at > worker_timeout:
                raise ServiceError(f"export {export_id} waits, but no worker of {self._session.server} is running")
            if now > deadline:
                raise ServiceError(f"export {export_id} is still {state} after {timeout:.0f} s; it is kept, try later")
            time.sleep(_POLL)

    def download(self, export: Export, path: str | Path) -> Path:
        """Download the archive of a ready export to a file, and return its path.

        Raises:
            ServiceError: The archive has expired, or arrived damaged.
        """
        with tempfile.TemporaryDirectory() as folder:
            archive = self._download_and_verify_archive(export, Path(folder))
            copy_atomically(archive, Path(path))
        return Path(path)

    def download_into_folder(self, export: Export, folder: Path) -> None:
        """Download the archive of a ready export, and write its files into an existing folder. Raises as `download`."""
        with (
            tempfile.TemporaryDirectory() as scratch,
            zipfile.ZipFile(self._download_and_verify_archive(export, Path(scratch))) as archive,
        ):
            for entry in archive.infolist():
                name = PurePosixPath(entry.filename).name  # without folders, so that none leads elsewhere
                (folder / name).write_bytes(archive.read(entry))

    def _download_and_verify_archive(self, export: Export, folder: Path) -> Path:
        path = folder / "archive.zip"
        self._session.download_to_file(f"/studies/{export['study_id']}/exports/{export['id']}/download", path)
        if compute_file_sha256(path) != export["sha256"]:
            raise ServiceError(f"the archive of export {export['id']} arrived damaged: download it again")
        return path
