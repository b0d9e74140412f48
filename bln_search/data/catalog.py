"""The catalogue of data sets, and loading a data set by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bln_search.core.built_in_data_sets import BUILT_IN_DATA_SETS
from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.errors import BlnSearchError, DataError
from bln_search.core.reasons import describe_exception
from bln_search.core.registry import DATA_SETS
from bln_search.core.source_digests import (
    combine_digests,
    digest_modules_of_package,
    digest_own_modules,
    find_module_name,
)
from bln_search.core.tasks import as_built_in_task
from bln_search.data.cache import find_cached_data_set, has_cached_data_set, try_write_cached_data_set
from bln_search.data.catalog_entry import CatalogEntry, DataFormat, DataSource
from bln_search.data.dataset import DataSet
from bln_search.data.files import find_system_error, read_verified_file

__all__ = ["CATALOG", "CatalogEntry", "DataFormat", "DataSource", "get_catalog_entry", "load_data_set"]


def _load_catalog_entry(name: str, info: DataSetInfo | None) -> CatalogEntry:
    """The entry of a data set, with the task of its description if it has one.

    Raises:
        DataError: Its package cannot be loaded.
    """
    entry = DATA_SETS.load_object(name, None if info is None else info.entry)
    if not isinstance(entry, CatalogEntry):
        raise DataError(f"the data set {name} of an installed package is not a bln_search.data.catalog.CatalogEntry")
    return replace(entry, task=as_built_in_task(entry.task if info is None else info.task))


CATALOG: Mapping[str, CatalogEntry] = {
    name: _load_catalog_entry(name, info) for name, info in BUILT_IN_DATA_SETS.items()
}
"""The entries of the built-in data sets."""


def get_catalog_entry(name: str) -> CatalogEntry:
    """Return the entry of a data set.

    Raises:
        DataError: there is no data set of this name, or its package cannot be loaded.
    """
    return CATALOG[name] if name in CATALOG else _load_catalog_entry(name, DATA_SETS.load_info(name))


def list_catalog_entries() -> list[CatalogEntry]:
    """Return the entries of all data sets, without those of installed packages that cannot be loaded."""
    entries = dict(CATALOG)
    for name in DATA_SETS.plugins:
        with suppress(DataError):
            entries[name] = get_catalog_entry(name)
    return [entry for _, entry in sorted(entries.items())]


def load_data_set(
    name: str, data: Path, cache: Path | None = None, options: Mapping[str, Any] | None = None
) -> DataSet:
    """Return the data set called `name`.

    Args:
        name: of the data set.
        data: the folder with the files of data sets.
        cache: the folder of decoded data sets; None to decode the files every time.
        options: own options of the data set.

    Raises:
        DataError: a file is missing or damaged.
        ChecksumError: a file differs from the published one.
    """
    entry = get_catalog_entry(name)
    options = options or {}
    if entry.find is not None:
        source = find_source(entry, entry.find, data, options)
        with _errors_of_source_as_data_errors(name):
            version = "" if entry.prepare else _make_version_with_code(name, entry, source, options)
        if entry.prepare is not None:
            return source.decode()
        return _load_cached_or_decode(entry, version, cache, source.decode)
    if entry.load is not None:
        load = entry.load
        return _load_cached_or_decode(entry, "", None, lambda: load(**options))
    decode = entry.decode
    if options:
        raise DataError(f"the data set {name} has own options, which need a find or a load in its CatalogEntry")
    if decode is None:
        raise DataError(f"the data set {name} has neither find nor decode nor load")
    return _load_cached_or_decode(
        entry,
        _make_version_with_code(name, entry),
        cache,
        lambda: decode(lambda file: read_verified_file(file, entry.list_search_folders(data), entry.archive)),
    )


def find_source(
    entry: CatalogEntry, find: Callable[..., DataSource], data: Path, options: Mapping[str, Any] | None = None
) -> DataSource:
    """Return what `find` of a data set finds in the folder of data sets. Raises DataError if it finds nothing."""
    with _errors_of_source_as_data_errors(entry.name):
        return find(entry.list_search_folders(data), **(options or {}))


def has_decoded_copy(entry: CatalogEntry, cache: Path) -> bool:
    """Whether the cache has a decoded copy of a data set, which is then loaded without its files."""
    return entry.decode is not None and has_cached_data_set(
        cache, entry.name, _make_version_with_code(entry.name, entry)
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


def load_texts_of_length(
    name: str, length: int, data: Path, cache: Path | None = None, options: Mapping[str, Any] | None = None
) -> DataSet:
    """Return the texts of the data set called `name` with inputs of `length` token ids, the last ones of each text.

    `options` are its own options.

    Raises:
        DataError: the data set does not consist of texts that can have another length, or a file is missing or damaged.
        ChecksumError: a file differs from the published one.
    """
    entry = get_catalog_entry(name)
    if entry.find_with_length is None:
        raise DataError(f"the data set {name} has inputs of one length only: remove evaluation.lengths")
    source = entry.find_with_length(entry.list_search_folders(data), length, **(options or {}))
    return _load_cached_or_decode(entry, _make_version_with_code(name, entry, source, options), cache, source.decode)


def list_data_set_modules(name: str) -> frozenset[str]:
    """Names of the modules of the data set called `name` whose code finds and decodes it.

    Raises:
        DataError: there is no data set of this name, or its package cannot be loaded.
    """
    modules = _list_modules_of_entry(get_catalog_entry(name))
    if name in CATALOG:
        return modules
    info = DATA_SETS.load_info(name)
    return modules | DATA_SETS.list_plugin_modules(name, None if info is None else info.entry)


def _list_modules_of_entry(entry: CatalogEntry, source: DataSource | None = None) -> frozenset[str]:
    functions = (entry.decode, entry.find, entry.find_with_length, entry.load, entry.prepare, source)
    return frozenset(find_module_name(function) for function in functions if function is not None) - {__name__}


def _make_version_with_code(
    name: str, entry: CatalogEntry, source: DataSource | None = None, options: Mapping[str, Any] | None = None
) -> str:
    """Version of files, own options and decoding code, so that the cache keeps nothing of other ones."""
    modules = list_data_set_modules(name) | _list_modules_of_entry(entry, source)
    code = digest_modules_of_package(modules, "bln_search.data") if name in CATALOG else digest_own_modules(modules)
    if options:
        code = {**code, "options": hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()}
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
