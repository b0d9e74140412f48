"""Getting files from where a data set is distributed."""

from __future__ import annotations

import http.client
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
    """Download what `entry` needs into `folder`/name, in place of what is there; yields the paths.

    Each file arrives whole or not at all. Raises DataError where a download fails; what came before it stays.
    """
    target = folder / entry.name
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder {target} cannot be made ({error.strerror}): give another with --data") from None
    for url in entry.downloads:
        path = target / url.rsplit("/", 1)[-1]
        _download(url, path)
        yield path


def _download(url: str, path: Path) -> None:
    try:
        with (
            urllib.request.urlopen(url, timeout=_TIMEOUT) as response,  # noqa: S310 - the catalogue's own URLs
            tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as unfinished,
        ):
            part = Path(unfinished) / path.name
            with part.open("wb") as stream:
                copyfileobj(response, stream)
            announced = response.headers.get("Content-Length")
            if announced is not None and part.stat().st_size != int(announced):
                raise OSError(f"{part.stat().st_size} of {announced} bytes came")  # noqa: TRY301
            part.replace(path)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise DataError(
            f"{url} could not be downloaded ({error}): get the file in another way and put it into {path.parent}"
        ) from None
