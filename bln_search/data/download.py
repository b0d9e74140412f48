"""Download of the published files of a data set."""

from __future__ import annotations

import http.client
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfileobj

from bln_search.core.errors import DataError
from bln_search.data.catalog import CatalogEntry

_TIMEOUT_SECONDS = 60


def download_and_iter_files(entry: CatalogEntry, folder: Path) -> Iterator[Path]:
    """Download the files of `entry` into the folder `folder`/entry.folder_name and replace existing ones.

    Each file is written atomically. Files that were downloaded before an error are kept.

    Args:
        entry: of the data set.
        folder: the folder with the files of data sets.

    Yields:
        The path of each file.

    Raises:
        DataError: a download fails, or the folder cannot be created.
    """
    target = folder / entry.folder_name
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the folder {target} cannot be created ({error.strerror}): name another one with --data"
        ) from None
    for url in entry.downloads:
        path = target / url.rsplit("/", 1)[-1]
        _download(url, path)
        yield path


def _download(url: str, path: Path) -> None:
    try:
        with (
            urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response,  # noqa: S310 - the catalogue's own URLs
            tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as temporary,
        ):
            download = Path(temporary) / path.name
            with download.open("wb") as stream:
                copyfileobj(response, stream)
            expected_bytes = response.headers.get("Content-Length")
            if expected_bytes is not None and download.stat().st_size != int(expected_bytes):
                raise OSError(f"{download.stat().st_size} of {expected_bytes} bytes were received")  # noqa: TRY301
            download.replace(path)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise DataError(
            f"{url} could not be downloaded ({error}): download the file by other means and put it into {path.parent}"
        ) from None
