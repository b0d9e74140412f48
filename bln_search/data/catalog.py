"""The catalogue of data sets, and loading a data set by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bln_search.core.errors import DataError
from bln_search.core.registry import data_problem, plugin_data_sets
from bln_search.data import cifar10, cifar100, digits, imagenet, imdb, mnist, mnist_pairs
from bln_search.data.cache import read_cache, write_cache
from bln_search.data.dataset import DataSet
from bln_search.data.files import Archive, SourceFile, read_file


class DataSource(Protocol):
    """The files of a data set on disk, in one of several file formats."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files and folders that hold the data set."""

    @property
    def version(self) -> str:
        """Version of the content. It changes when the content changes."""

    def verify(self) -> tuple[str, ...]:
        """Compare the files with the published checksums.

        Returns:
            For each path, a sentence that says what was compared.

        Raises:
            ChecksumError: a file differs from the published one.
        """

    def decode(self) -> DataSet:
        """Return the data set.

        Raises:
            ChecksumError: a file differs from the published one.
        """


@dataclass(frozen=True)
class CatalogEntry:
    """A data set of the catalogue: its published files, their decoding, and their download URLs.

    Attributes:
        name: of the data set.
        about: a short description.
        classes: names of the classes.
        files: the published files, for a data set of one file format.
        archive: the published archive that holds the files; None where there is none.
        decode: returns the data set; its argument reads the content of a file.
        downloads: URLs that `fetch` downloads: each packed file, or the archive.
        find: for a data set of several file formats, finds it in some folders; raises DataError where none holds it.
        remarks: properties of the published data that affect results.
        folder: name of the folder of the files; by default that of the data set.
        is_lazy: whether its examples are decoded one mini-batch at a time, so that `load_data` cannot return them.
    """

    name: str
    about: str
    classes: tuple[str, ...]
    files: tuple[SourceFile, ...] = ()
    archive: Archive | None = None
    decode: Callable[[Callable[[SourceFile], bytes]], DataSet] | None = None
    downloads: tuple[str, ...] = ()
    find: Callable[[Sequence[Path]], DataSource] | None = None
    remarks: tuple[str, ...] = ()
    folder: str = ""
    is_lazy: bool = False

    @property
    def folder_name(self) -> str:
        """Name of the folder of the files."""
        return self.folder or self.name

    @property
    def version(self) -> str:
        """Version of the files. It changes when a published checksum changes."""
        return hashlib.sha256("".join(file.md5 for file in self.files).encode()).hexdigest()[:12]

    def folders(self, data: Path) -> list[Path]:
        """Return the folders that are searched for the files."""
        own = data / self.folder_name
        inner = [own / self.archive.folder, data / self.archive.folder] if self.archive else []
        return [own, data, *inner]


_MNIST_DOWNLOADS = tuple(f"https://ossci-datasets.s3.amazonaws.com/mnist/{file.name}.gz" for file in mnist.FILES)

CATALOG: Mapping[str, CatalogEntry] = {
    "digits": CatalogEntry("digits", "1,797 handwritten digits, 8×8, shipped with scikit-learn", digits.CLASSES),
    "mnist": CatalogEntry(
        "mnist",
        "60,000 + 10,000 handwritten digits, 28×28 (LeCun et al. 1998)",
        mnist.CLASSES,
        mnist.FILES,
        decode=mnist.decode,
        downloads=_MNIST_DOWNLOADS,
    ),
    "mnist_pairs": CatalogEntry(
        "mnist_pairs",
        "50,000 + 10,000 pairs of MNIST digits of a hundred classes, 28×56, made from the files of mnist",
        mnist_pairs.CLASSES,
        mnist.FILES,
        decode=mnist_pairs.decode,
        downloads=_MNIST_DOWNLOADS,
        remarks=mnist_pairs.REMARKS,
        folder="mnist",
    ),
    "cifar10": CatalogEntry(
        "cifar10",
        "50,000 + 10,000 colour images of ten classes, 32×32 (Krizhevsky 2009)",
        cifar10.CLASSES,
        cifar10.FILES,
        cifar10.ARCHIVE,
        cifar10.decode,
        (f"https://www.cs.toronto.edu/~kriz/{cifar10.ARCHIVE.name}",),
    ),
    "cifar100": CatalogEntry(
        "cifar100",
        "50,000 + 10,000 colour images of a hundred classes, 32×32 (Krizhevsky 2009)",
        cifar100.CLASSES,
        cifar100.FILES,
        cifar100.ARCHIVE,
        cifar100.decode,
        (f"https://www.cs.toronto.edu/~kriz/{cifar100.ARCHIVE.name}",),
    ),
    "imagenet": CatalogEntry(
        "imagenet",
        "images in the folders train/WNID and val/WNID, 224×224 (Russakovsky et al. 2015)",
        (),
        find=imagenet.find_images,
        is_lazy=True,
    ),
    "imdb": CatalogEntry(
        "imdb",
        "25,000 + 25,000 film reviews of two classes, the last 80 words of each (Maas et al. 2011)",
        imdb.CLASSES,
        downloads=(f"https://ai.stanford.edu/~amaas/data/sentiment/{imdb.ARCHIVE}",),
        find=imdb.find_reviews,
        remarks=imdb.REMARKS,
    ),
}


def find_entry(name: str) -> CatalogEntry:
    """Return the entry of a data set.

    Raises:
        DataError: there is no data set of this name, or its package cannot be loaded.
    """
    problem = data_problem(name)
    if problem is not None:
        raise DataError(problem)
    if name in CATALOG:
        return CATALOG[name]
    try:
        entry = plugin_data_sets()[name].load()
    except Exception as error:
        raise DataError(f"the data set {name} of an installed package cannot be loaded: {error}") from error
    if not isinstance(entry, CatalogEntry):
        raise DataError(f"the data set {name} of an installed package is not a bln_search.data.catalog.CatalogEntry")
    return entry


def load_data(name: str, data: Path, cache: Path | None = None) -> DataSet:
    """Return the data set called `name`.

    Args:
        name: of the data set.
        data: the folder with the files of data sets.
        cache: the folder of decoded data sets; None to decode the files every time.

    Raises:
        DataError: a file is missing or damaged.
        ChecksumError: a file differs from the published one.
    """
    entry = find_entry(name)
    if entry.find is not None:
        source = entry.find(entry.folders(data))
        if entry.is_lazy:
            return source.decode()
        return _load_or_decode(entry, source.version, cache, source.decode)
    decode = entry.decode
    if decode is None:
        return digits.decode()
    return _load_or_decode(
        entry, entry.version, cache, lambda: decode(lambda file: read_file(file, entry.folders(data), entry.archive))
    )


def _load_or_decode(entry: CatalogEntry, version: str, cache: Path | None, decode: Callable[[], DataSet]) -> DataSet:
    """Return the cached data set, or decode it and cache it.

    Raises:
        DataError: the arrays have other types or shapes than a data set has.
    """
    cached = None if cache is None else read_cache(cache, entry.name, version, entry.classes)
    if cached is not None:
        return cached
    decoded = decode()
    decoded.check()
    if cache is not None:
        write_cache(cache, version, decoded)
    return decoded
