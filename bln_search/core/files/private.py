"""Files and folders that only their owner can read, whatever the umask of the process."""

from __future__ import annotations

import logging
import os
import re
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

_log = logging.getLogger(__name__)

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
"""Permissions of files and folders of bln-search."""

_OTHERS = 0o077
"""Permissions of the group and of everybody."""

_EVERYBODY = 0o007


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


def make_folder_and_content_private(folder: Path, own: re.Pattern[str], usual: re.Pattern[str]) -> None:
    """Take the permissions of others from a folder of bln-search and from what is directly in it.

    A folder that is sticky, setgid, or has other content is shared: it stays as it is, which a warning says once where
    everybody can enter it, and only the files with `own` names are made private. They keep the permissions of the group
    of a setgid folder. Links are not followed. What belongs to another user stays as it is; a warning says so if
    everybody can read it. Does nothing where the folder does not exist, and where the system has no such permissions.

    Args:
        folder: The folder. What is deeper in it cannot be reached without the folders above it.
        own: Names that only bln-search gives.
        usual: Further names in a folder of bln-search, which files of other programs may have, too.
    """
    if os.name != "posix":
        return
    try:
        mode, content = folder.stat().st_mode, [*folder.iterdir()]
    except OSError:
        return
    own_content = [path for path in content if own.fullmatch(path.name)]
    is_shared = _is_shared(mode) or not all(usual.fullmatch(path.name) for path in {*content} - {*own_content})
    if is_shared and mode & _EVERYBODY:
        _warn_of_shared_folder(folder)
    for path in own_content if is_shared else [folder, *content]:
        with suppress(OSError):  # such as a file that another process has deleted meanwhile
            _take_permissions(path, _EVERYBODY if mode & stat.S_ISGID else _OTHERS)


def _is_shared(mode: int) -> bool:
    """Whether a folder was made for several users."""
    return bool(mode & (stat.S_ISVTX | stat.S_ISGID))


@cache
def _warn_of_shared_folder(folder: Path) -> None:
    _log.warning("%s is shared with other users or programs: set BLN_SEARCH_HOME to a folder of its own", folder)


def _take_permissions(path: Path, removed: int) -> None:
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    is_own_folder = stat.S_ISDIR(status.st_mode) and not _is_shared(mode)
    if not mode & removed or not (stat.S_ISREG(status.st_mode) or is_own_folder):
        return
    if status.st_uid == os.geteuid():
        path.chmod(mode & ~removed)
        _log.info("%s had permissions %o, and has %o now", path, mode, mode & ~removed)
    elif mode & stat.S_IROTH:
        _log.warning("%s can be read by everybody, and belongs to another user: chmod -R go-rwx it", path)
