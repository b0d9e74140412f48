"""The entry of a data set in the catalogue."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bln_search.core.tasks import TaskName
from bln_search.data.dataset import DataSet
from bln_search.data.files import Archive, PublishedFile
from bln_search.data.input_shape import InputShape


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
class DataFormat:
    """The inputs and targets of a data set.

    Attributes:
        shape: of one example; of several inputs a field for each name.
        outputs: number of classes, labels or numbers.
        vocabulary: number of token ids; None where inputs are measurements.
        tokens: number of predicted tokens, where they are not those of the input.
    """

    shape: InputShape
    outputs: int
    vocabulary: int | None = None
    tokens: int | None = None


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
            Its further arguments are the own options of the data set.
        remarks: properties of the published data that affect results.
        find_with_length: for a data set of texts, finds it with inputs of a number of token ids; the texts, their order
            and the vocabulary are those of `find`, and so are its further arguments.
        folder: name of the folder of the files; by default that of the data set.
        task: what its labels are made for; that of its `DataSetInfo` if it has one.
        load: returns a data set that needs no files; its arguments are the own options of the data set.
        prepare: for a data set whose examples are decoded one mini-batch at a time, so that `load_data_set` cannot
            return them: makes its `PreparedData` from some folders, a `DataSpec` and the name of a device.
        format: of its inputs and targets, to measure durations without its files.
    """

    name: str
    about: str
    classes: tuple[str, ...]
    files: tuple[PublishedFile, ...] = ()
    archive: Archive | None = None
    decode: Callable[[Callable[[PublishedFile], bytes]], DataSet] | None = None
    downloads: tuple[str, ...] = ()
    find: Callable[..., DataSource] | None = None
    remarks: tuple[str, ...] = ()
    find_with_length: Callable[..., DataSource] | None = None
    folder: str = ""
    task: str = TaskName.CLASSIFICATION
    load: Callable[..., DataSet] | None = None
    prepare: Callable[..., Any] | None = None
    format: DataFormat | None = None

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
