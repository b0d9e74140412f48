"""The catalogue of data sets, and loading a data set by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from bln_search.core.errors import BlnSearchError, DataError
from bln_search.core.reasons import describe_exception
from bln_search.core.registry import find_data_set_problem, plugin_data_set_entry_points
from bln_search.core.source_digests import (
    combine_digests,
    digest_modules_of_package,
    digest_own_modules,
    find_module_name,
)
from bln_search.core.tasks import TaskName
from bln_search.data import (
    cifar10,
    cifar100,
    diabetes,
    digits,
    imagenet,
    imdb,
    imdb_case,
    imdb_cloze,
    imdb_next_word,
    imdb_sentences,
    mnist,
    mnist_binarized,
    mnist_pair_captions,
    mnist_pair_digits,
    mnist_pairs,
    mnist_pen_tracks,
)
from bln_search.data.cache import find_cached_data_set, try_write_cached_data_set
from bln_search.data.dataset import DataSet
from bln_search.data.files import Archive, PublishedFile, find_system_error, read_verified_file


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
        find_with_length: for a data set of texts, finds it with inputs of a number of token ids; the texts, their order
            and the vocabulary are those of `find`.
        folder: name of the folder of the files; by default that of the data set.
        task: what its labels are made for.
        is_lazy: whether its examples are decoded one mini-batch at a time, so that `load_data_set` cannot return them.
    """

    name: str
    about: str
    classes: tuple[str, ...]
    files: tuple[PublishedFile, ...] = ()
    archive: Archive | None = None
    decode: Callable[[Callable[[PublishedFile], bytes]], DataSet] | None = None
    downloads: tuple[str, ...] = ()
    find: Callable[[Sequence[Path]], DataSource] | None = None
    remarks: tuple[str, ...] = ()
    find_with_length: Callable[[Sequence[Path], int], DataSource] | None = None
    folder: str = ""
    is_lazy: bool = False
    task: str = TaskName.CLASSIFICATION

    @property
    def folder_name(self) -> str:
        """Name of the folder of the files."""
        return self.folder or self.name

    @property
    def version(self) -> str:
        """Version of the files. It changes when a published checksum changes."""
        return hashlib.sha256("".join(file.md5 for file in self.files).encode()).hexdigest()[:12]

    def list_search_folders(self, data: Path) -> list[Path]:
        """Return the folders that are searched for the files."""
        own = data / self.folder_name
        inner = [own / self.archive.folder, data / self.archive.folder] if self.archive else []
        return [own, data, *inner]


_MNIST_DOWNLOADS = tuple(f"https://ossci-datasets.s3.amazonaws.com/mnist/{file.name}.gz" for file in mnist.FILES)
_IMDB_DOWNLOADS = (f"https://ai.stanford.edu/~amaas/data/sentiment/{imdb.ARCHIVE}",)
_BUNDLED = {"diabetes": diabetes.load_diabetes_data_set, "digits": digits.load_digits_data_set}
"""Data sets that a dependency brings along."""


def _make_entry_of_mnist(
    name: str,
    about: str,
    decode: Callable[[Callable[[PublishedFile], bytes]], DataSet],
    classes: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
    task: TaskName = TaskName.CLASSIFICATION,
) -> CatalogEntry:
    """Return the entry of a data set that is decoded from the files of MNIST."""
    return CatalogEntry(
        name,
        about,
        classes,
        mnist.FILES,
        decode=decode,
        downloads=_MNIST_DOWNLOADS,
        remarks=remarks,
        folder="mnist",
        task=task,
    )


CATALOG: Mapping[str, CatalogEntry] = {
    "diabetes": CatalogEntry(
        "diabetes",
        "442 patients with 10 measurements and the progression of diabetes (Efron et al. 2004), from scikit-learn",
        diabetes.NUMBERS,
        task=TaskName.REGRESSION,
    ),
    "digits": CatalogEntry("digits", "1,797 handwritten digits, 8×8, shipped with scikit-learn", digits.CLASSES),
    "mnist": _make_entry_of_mnist(
        "mnist", "60,000 + 10,000 handwritten digits, 28×28 (LeCun et al. 1998)", mnist.decode_mnist, mnist.CLASSES
    ),
    "mnist_binarized": _make_entry_of_mnist(
        "mnist_binarized",
        "the images of mnist with pixels 0 and 1, drawn once",
        mnist_binarized.decode_binarized_mnist,
        remarks=mnist_binarized.REMARKS,
        task=TaskName.DENSITY,
    ),
    "mnist_pairs": _make_entry_of_mnist(
        "mnist_pairs",
        "50,000 + 10,000 pairs of MNIST digits of a hundred classes, 28×56, made from the files of mnist",
        mnist_pairs.decode_mnist_pairs,
        mnist_pairs.CLASSES,
        mnist_pairs.REMARKS,
    ),
    "mnist_pair_digits": _make_entry_of_mnist(
        "mnist_pair_digits",
        "the images of mnist_pairs, with the digits that they show as labels",
        mnist_pair_digits.decode_mnist_pair_digits,
        mnist_pair_digits.LABELS,
        mnist_pair_digits.REMARKS,
        TaskName.MULTI_LABEL,
    ),
    "mnist_pair_captions": _make_entry_of_mnist(
        "mnist_pair_captions",
        "50,000 + 1,000 images of mnist_pairs with captions made from templates",
        mnist_pair_captions.decode_mnist_pair_captions,
        remarks=mnist_pair_captions.REMARKS,
        task=TaskName.RETRIEVAL,
    ),
    "mnist_pen_tracks": _make_entry_of_mnist(
        "mnist_pen_tracks",
        "12,000 + 2,000 tracks of a pen along five thinned digits of mnist, with the digits as their text",
        mnist_pen_tracks.decode_mnist_pen_tracks,
        remarks=mnist_pen_tracks.REMARKS,
        task=TaskName.DENSITY,
    ),
    "cifar10": CatalogEntry(
        "cifar10",
        "50,000 + 10,000 colour images of ten classes, 32×32 (Krizhevsky 2009)",
        cifar10.CLASSES,
        cifar10.FILES,
        cifar10.ARCHIVE,
        cifar10.decode_cifar10,
        (f"https://www.cs.toronto.edu/~kriz/{cifar10.ARCHIVE.name}",),
    ),
    "cifar100": CatalogEntry(
        "cifar100",
        "50,000 + 10,000 colour images of a hundred classes, 32×32 (Krizhevsky 2009)",
        cifar100.CLASSES,
        cifar100.FILES,
        cifar100.ARCHIVE,
        cifar100.decode_cifar100,
        (f"https://www.cs.toronto.edu/~kriz/{cifar100.ARCHIVE.name}",),
    ),
    "imagenet": CatalogEntry(
        "imagenet",
        "images in the folders train/WNID and val/WNID, 224×224 (Russakovsky et al. 2015)",
        (),
        find=imagenet.get_image_folders,
        is_lazy=True,
    ),
    "imdb": CatalogEntry(
        "imdb",
        "25,000 + 25,000 film reviews of two classes, the last 80 words of each (Maas et al. 2011)",
        imdb.CLASSES,
        downloads=_IMDB_DOWNLOADS,
        find=imdb.get_review_source,
        remarks=imdb.REMARKS,
        find_with_length=lambda folders, length: imdb.get_review_source(folders, length=length),
    ),
    "imdb_case": CatalogEntry(
        "imdb_case",
        "the reviews of imdb in lower case, with the case of each of their last 80 words",
        imdb_case.CLASSES,
        downloads=_IMDB_DOWNLOADS,
        find=imdb_case.get_cased_review_source,
        remarks=imdb_case.REMARKS,
        find_with_length=imdb_case.get_cased_review_source,
        folder="imdb",
        task=TaskName.TOKEN_CLASSIFICATION,
    ),
    "imdb_cloze": CatalogEntry(
        "imdb_cloze",
        "questions about the reviews of imdb: which of fifty frequent words is missing in a sentence",
        imdb_cloze.ANSWERS,
        downloads=_IMDB_DOWNLOADS,
        find=imdb_cloze.get_cloze_source,
        remarks=imdb_cloze.REMARKS,
        folder="imdb",
    ),
    "imdb_next_word": CatalogEntry(
        "imdb_next_word",
        "the reviews of imdb with the word after each of their last 80 words, of the 2,000 most frequent words",
        imdb_next_word.CLASSES,
        downloads=_IMDB_DOWNLOADS,
        find=imdb_next_word.get_next_word_source,
        remarks=imdb_next_word.REMARKS,
        find_with_length=imdb_next_word.get_next_word_source,
        folder="imdb",
        task=TaskName.LANGUAGE_MODEL,
    ),
    "imdb_sentences": CatalogEntry(
        "imdb_sentences",
        "three consecutive sentences of each review of imdb, with the next words of the first and the last one",
        imdb_next_word.CLASSES,
        downloads=_IMDB_DOWNLOADS,
        find=imdb_sentences.get_sentence_source,
        remarks=imdb_sentences.REMARKS,
        folder="imdb",
        task=TaskName.LANGUAGE_MODEL,
    ),
}


def get_catalog_entry(name: str) -> CatalogEntry:
    """Return the entry of a data set.

    Raises:
        DataError: there is no data set of this name, or its package cannot be loaded.
    """
    problem = find_data_set_problem(name)
    if problem is not None:
        raise DataError(problem)
    if name in CATALOG:
        return CATALOG[name]
    try:
        entry = plugin_data_set_entry_points()[name].load()
    except Exception as error:
        raise DataError(f"the data set {name} of an installed package cannot be loaded: {error}") from error
    if not isinstance(entry, CatalogEntry):
        raise DataError(f"the data set {name} of an installed package is not a bln_search.data.catalog.CatalogEntry")
    return entry


def load_data_set(name: str, data: Path, cache: Path | None = None) -> DataSet:
    """Return the data set called `name`.

    Args:
        name: of the data set.
        data: the folder with the files of data sets.
        cache: the folder of decoded data sets; None to decode the files every time.

    Raises:
        DataError: a file is missing or damaged.
        ChecksumError: a file differs from the published one.
    """
    entry = get_catalog_entry(name)
    if entry.find is not None:
        with _errors_of_source_as_data_errors(name):
            source = entry.find(entry.list_search_folders(data))
            version = "" if entry.is_lazy else _make_version_with_code(name, entry, source)
        if entry.is_lazy:
            return source.decode()
        return _load_cached_or_decode(entry, version, cache, source.decode)
    decode = entry.decode
    if decode is None:
        return _BUNDLED[name]()
    return _load_cached_or_decode(
        entry,
        _make_version_with_code(name, entry),
        cache,
        lambda: decode(lambda file: read_verified_file(file, entry.list_search_folders(data), entry.archive)),
    )


@contextmanager
def _errors_of_source_as_data_errors(name: str) -> Iterator[None]:
    """Translate what the code of a data set raises, that of an installed package too, into an error with its name."""
    try:
        yield
    except (BlnSearchError, MemoryError):
        raise
    except Exception as error:
        system_error = find_system_error(f"the data set {name}", error)
        if system_error is not None:
            raise system_error from error
        hint = ""
        if "allow_pickle" in str(error):
            hint = ": an array holds Python objects; save numbers, or texts as np.str_"
        raise DataError(f"the data set {name} cannot be decoded: {describe_exception(error)}{hint}") from error


def load_texts_of_length(name: str, length: int, data: Path, cache: Path | None = None) -> DataSet:
    """Return the texts of the data set called `name` with inputs of `length` token ids, the last ones of each text.

    Raises:
        DataError: the data set does not consist of texts that can have another length, or a file is missing or damaged.
        ChecksumError: a file differs from the published one.
    """
    entry = get_catalog_entry(name)
    if entry.find_with_length is None:
        raise DataError(f"the data set {name} has inputs of one length only: remove evaluation.lengths")
    source = entry.find_with_length(entry.list_search_folders(data), length)
    return _load_cached_or_decode(entry, _make_version_with_code(name, entry, source), cache, source.decode)


def list_data_set_modules(name: str) -> frozenset[str]:
    """Names of the modules of the data set called `name` whose code finds and decodes it.

    Raises:
        DataError: there is no data set of this name, or its package cannot be loaded.
    """
    point = None if name in CATALOG else plugin_data_set_entry_points().get(name)
    return _list_modules_of_entry(get_catalog_entry(name)) | ({point.module} if point is not None else set())


def _list_modules_of_entry(entry: CatalogEntry, source: DataSource | None = None) -> frozenset[str]:
    functions = (entry.decode, entry.find, entry.find_with_length, _BUNDLED.get(entry.name), source)
    return frozenset(find_module_name(function) for function in functions if function is not None) - {__name__}


def _make_version_with_code(name: str, entry: CatalogEntry, source: DataSource | None = None) -> str:
    """Version of the files, and of the code that decodes them, so that the cache keeps nothing of other code."""
    modules = list_data_set_modules(name) | _list_modules_of_entry(entry, source)
    code = digest_modules_of_package(modules, "bln_search.data") if name in CATALOG else digest_own_modules(modules)
    return f"{entry.version if source is None else source.version}-{combine_digests(code)[:12]}"


def _load_cached_or_decode(
    entry: CatalogEntry, version: str, cache: Path | None, decode: Callable[[], DataSet]
) -> DataSet:
    """Return the cached data set, or decode it and cache it.

    Raises:
        DataError: the arrays have other types or shapes than a data set has.
    """
    cached = None if cache is None else find_cached_data_set(cache, entry.name, version, entry.classes)
    if cached is not None:
        return replace(cached, task=entry.task)
    with _errors_of_source_as_data_errors(entry.name):
        decoded = decode()
        if not isinstance(decoded, DataSet):
            raise DataError(f"decode() of the data set {entry.name} returns a {type(decoded).__name__}, not a DataSet")
    decoded = replace(decoded, task=entry.task)
    decoded.check()
    if cache is not None:
        try_write_cached_data_set(cache, version, decoded)
    return decoded
