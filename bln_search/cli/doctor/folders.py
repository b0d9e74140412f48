"""Checks of folders: free disk space, home, cache, data sets, checkpoint store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bln_search.cli.doctor.finding import Finding, fault, ok, skipped
from bln_search.cli.maintenance.data import count_missing_and_all_files
from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import BlnSearchError
from bln_search.core.files.disk import find_disk_space_problem, measure_disk_usage
from bln_search.settings import Settings

_TEST_CONTENT = b"bln-search doctor"


def iter_disk_space_findings(settings: Settings) -> Iterator[Finding]:
    """Check the free space of the folders that results are written to."""
    problem = find_disk_space_problem(settings.output_folders, settings.free_bytes)
    if problem is not None:
        yield fault("disk space", problem, "free some, for example with `bln-search checkpoints clean`")
        return
    free = min(measure_disk_usage(folder).free for folder in settings.output_folders)
    yield ok("disk space", f"{free / 1e9:,.1f} GB are free for checkpoints and results")


def iter_written_folder_findings(settings: Settings) -> Iterator[Finding]:
    """Check that files can be written to the home and to the cache, or to the folder in which they will be created."""
    folders = {"home": (settings.home, "BLN_SEARCH_HOME"), "cache": (settings.cache, "BLN_SEARCH_CACHE")}
    for name, (folder, variable) in folders.items():
        reason = find_write_problem(folder)
        if reason is None:
            yield ok(name, f"{folder}, writable")
        else:
            yield fault(name, f"{folder} is not writable: {reason}", f"give write access, or set {variable}")


def find_write_problem(folder: Path) -> str | None:
    """Why no file can be written to the folder, or to its nearest parent that exists; None if one can."""
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=parent, prefix=".doctor-") as file:
            file.write(_TEST_CONTENT)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def iter_data_set_findings(settings: Settings, data: Path | None) -> Iterator[Finding]:
    """Check that the folder of data sets can be read, and that no data set lacks some of its files.

    Args:
        settings: Used without `data`.
        data: Folder of data sets.
    """
    from bln_search.data.catalog import CATALOG

    folder = data or settings.data_folder
    if not folder.is_dir():
        if data is None and settings.data is None:
            yield skipped("data sets", f"{folder} does not exist; `bln-search data fetch NAME` creates it")
        else:
            yield fault("data sets", f"the folder {folder} does not exist", "create it, or correct BLN_SEARCH_DATA")
        return
    try:
        next(folder.iterdir(), None)
    except OSError as error:
        yield fault("data sets", f"{folder} cannot be read: {error.strerror}", "give read access to its folders")
        return
    counts = {
        entry.name: count_missing_and_all_files(entry, entry.list_search_folders(folder)) for entry in CATALOG.values()
    }
    present = [name for name, (missing, _) in counts.items() if not missing]
    yield ok("data sets", f"{folder}: {len(present)} of {len(counts)} present, {', '.join(present)}")
    for name, (missing, total) in counts.items():
        if 0 < missing < total:
            detail = f"{missing} of {total} files are missing in {folder}"
            yield fault(f"data set {name}", detail, f"run `bln-search data fetch {name}`")


def iter_checkpoint_store_findings(settings: Settings) -> Iterator[Finding]:
    """Check that the checkpoint store takes, returns and deletes a file; a folder that is missing is not created."""
    store = settings.checkpoint_store
    try:
        if isinstance(store, FolderStore) and not store.exists() and find_write_problem(store.path) is None:
            detail = f"{store} does not exist; the first run creates it. If trials ran with it, mount it"
            yield skipped("checkpoints", detail)
            return
        store.check_read_and_write_access()
    except (BlnSearchError, OSError) as error:
        reason = f"{store}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        remedy = "correct BLN_SEARCH_CHECKPOINTS, or its credentials and access rights"
        yield fault("checkpoints", reason, remedy)
    else:
        yield ok("checkpoints", f"{store}: a file was written, read and deleted")
