"""Files and folders that only their owner can read, whatever the umask of the process."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger(__name__)

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
"""Permissions of files and folders of bln-search."""

_OTHERS = 0o077
"""Permissions of the group and of everybody."""


def make_private_folder(folder: Path) -> None:
    """Create a folder, and the missing ones above it, for their owner alone; an existing folder keeps its permissions.

    Raises OSError.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    folder.mkdir(exist_ok=True)  # it is an error that it is a file


def make_private_file(file: Path) -> None:
    """Create an empty file for its owner alone; an existing one stays as it is. Raises OSError."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))


def open_private_descriptor(path: str, flags: int) -> int:
    """The `opener` of a file that is created for its owner alone."""
    return os.open(path, flags, PRIVATE_FILE)


def make_folder_and_content_private(folder: Path) -> None:
    """Take the permissions of others from a folder and from what is directly in it; links are not followed.

    What belongs to another user stays as it is; a warning says so if everybody can read it. Does nothing where the
    folder does not exist, and where the system has no such permissions.

    Args:
        folder: The folder. What is deeper in it cannot be reached without the folders above it.
    """
    if os.name != "posix":
        return
    with suppress(OSError):
        _take_permissions_of_others([folder, *folder.iterdir()])


def _take_permissions_of_others(paths: Iterable[Path]) -> None:
    for path in paths:
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if not mode & _OTHERS or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            continue
        if status.st_uid == os.geteuid():
            path.chmod(mode & ~_OTHERS)
            _log.info("%s had permissions %o, and can be read by its owner alone now", path, mode)
        elif mode & stat.S_IROTH:
            _log.warning("%s can be read by everybody, and belongs to another user: chmod -R go-rwx it", path)
