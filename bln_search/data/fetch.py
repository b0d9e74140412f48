"""Getting files from where a data set is distributed."""

from __future__ import annotations

import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfileobj

from bln_search.core.errors import DataError
from bln_search.data.catalog import Entry

_TIMEOUT = 60


def fetch_files(entry: Entry, folder: Path) -> Iterator[Path]:
    """Download what `entry` needs into `folder`/name, each file whole or not at all; yields the paths.

    Raises DataError where a download fails; what came before it stays.
    """
    target = folder / entry.name
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder {target} cannot be made ({error.strerror}): give another with --data") from None
    for url in entry.downloads:
        path = target / url.rsplit("/", 1)[-1]
        if not path.is_file():
            _download(url, path)
        yield path


def _download(url: str, path: Path) -> None:
    try:
        with (
            tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as unfinished,
            urllib.request.urlopen(url, timeout=_TIMEOUT) as response,  # noqa: S310 - the catalogue's own URLs
        ):
            copyfileobj(response, unfinished)
    except (urllib.error.URLError, OSError) as error:
        Path(unfinished.name).unlink(missing_ok=True)
        raise DataError(
            f"{url} could not be downloaded ({error}): get the file in another way and put it into {path.parent}"
        ) from None
    Path(unfinished.name).replace(path)
