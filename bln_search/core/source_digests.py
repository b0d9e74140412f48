"""Digests of source files: of some modules, and of the modules that they import.

A digest depends on the content only, and a file is named by its module: neither another modification time nor another
folder is a change. Line endings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import ModuleSpec
from importlib.metadata import distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages."""

_KNOWN_PACKAGES = frozenset({"bln_search", "service", "torch"})
"""Packages whose version is recorded otherwise, and whose sources are many."""

_SUFFIXES = (".py", ".so", ".pyd")


@dataclass(frozen=True)
class SourceFile:
    """The file of a module.

    Attributes:
        name: The module as a path, `own_parts/networks.py`, wherever the file is.
        path: The file.
        module: Name of the module.
    """

    name: str
    path: Path
    module: str


def _digest_modules(modules: Iterable[str], is_followed: Callable[[str, SourceFile], bool]) -> dict[str, str]:
    """Digest the files of modules, and of the modules that they import.

    Args:
        modules: Names of modules.
        is_followed: Whether an import of a module, given by its name, from a file is followed.
    """
    files: dict[str, SourceFile] = {}
    waiting = [file for module in modules for file in find_source_files(module)]
    while waiting:
        file = waiting.pop()
        if file.name in files:
            continue
        files[file.name] = file
        imported = (name for name in _list_imported_modules(file) if is_followed(name, file))
        waiting += [found for name in imported for found in find_source_files(name)]
    return {name: _digest_file(files[name].path) for name in sorted(files)}


@cache
def digest_own_modules(modules: frozenset[str]) -> Mapping[str, str]:
    """Digest the files of modules and of all modules under development that they import, directly or not.

    An imported module counts if it is in the same package or distribution, or is not installed in `site-packages`. The
    first digest of a file in a process counts, because the process runs the code that it loaded then.

    Returns:
        The digest of each file by its name; modules without a file are missing.
    """
    return _digest_modules(modules, _is_under_development)


@cache
def digest_modules_of_package(modules: frozenset[str], package: str) -> Mapping[str, str]:
    """Digest the files of modules of this program and of the modules of a package that they import, likewise."""
    return _digest_modules(modules, lambda name, _: name.startswith(f"{package}."))


@cache
def digest_folder(folder: Path) -> str:
    """One digest of all Python files of a folder and the folders in it."""
    files = {file.relative_to(folder).as_posix(): _digest_file(file) for file in folder.rglob("*.py")}
    return combine_digests(files)


def combine_digests(files: Mapping[str, str]) -> str:
    """One digest of digests by name."""
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def find_module_name(loaded: object) -> str:
    """Name of the module that defines a function or class, or the class of any other object."""
    while isinstance(loaded, partial):
        loaded = loaded.func
    if isinstance(loaded, type) or (callable(loaded) and hasattr(loaded, "__module__")):
        return str(loaded.__module__)
    return type(loaded).__module__


def find_source_path(name: str) -> Path | None:
    """The present path of the file that a digest belongs to; None if there is none."""
    module = name.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")
    return next((file.path for file in find_source_files(module) if file.name == name), None)


def find_source_files(module: str) -> list[SourceFile]:
    """The files of a module and of the packages that it is in; none where a file is unknown. Imports nothing."""
    first, *others = module.split(".")
    spec = _find_spec(first)
    if spec is None:
        return []
    path = Path(spec.origin) if spec.has_location and spec.origin is not None else None
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files, name = [] if path is None else [_make_source_file(first, path)], first
    for part in others:
        name = f"{name}.{part}"
        path, folders = _find_in_folders(folders, part)
        files += [] if path is None else [_make_source_file(name, path)]
    return files


def _make_source_file(module: str, path: Path) -> SourceFile:
    suffix = "/__init__.py" if path.name == "__init__.py" else path.suffix
    return SourceFile(module.replace(".", "/") + suffix, path, module)


def _find_spec(name: str) -> ModuleSpec | None:
    """Where a top-level module or package is."""
    try:
        return find_spec(name) if name else None
    except (ImportError, ValueError):
        return None


def _find_in_folders(folders: Iterable[Path], name: str) -> tuple[Path | None, list[Path]]:
    """The file of a module in the folders of its package, and its own folders if it is a package."""
    for folder in folders:
        package = folder / name
        if (package / "__init__.py").is_file():
            return package / "__init__.py", [package]
        for suffix in _SUFFIXES:
            for file in sorted(folder.glob(f"{name}.*{suffix}") if suffix != ".py" else folder.glob(f"{name}.py")):
                return file, []
    return None, [folder / name for folder in folders if (folder / name).is_dir()]


def _list_imported_modules(file: SourceFile) -> Iterator[str]:
    """Names of the modules that a file imports anywhere; `from a import b` gives `a.b`, where b may be a module."""
    if file.path.suffix != ".py":
        return
    try:
        tree = ast.parse(file.path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    is_package = file.path.name == "__init__.py"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = file.module.split(".")
            kept = len(parents) - node.level + is_package
            prefix = parents[: max(0, kept)] if node.level else []
            base = ".".join([*prefix, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_under_development(module: str, file: SourceFile) -> bool:
    top, own = module.partition(".")[0], file.module.partition(".")[0]
    if top == own:
        return True
    if top in _KNOWN_PACKAGES or top in sys.stdlib_module_names:
        return False
    spec = _find_spec(top)
    if spec is None:
        return False
    places = [spec.origin] if spec.has_location and spec.origin is not None else spec.submodule_search_locations or ()
    if _INSTALLED.isdisjoint(part for place in places for part in Path(place).parts):
        return not any(Path(place).is_relative_to(folder) for place in places for folder in _find_folders_of(top))
    return not _find_distributions(top).isdisjoint(_find_distributions(own))


def _find_distributions(package: str) -> set[str]:
    return set(_list_distributions_by_package().get(package, ()))


def _find_folders_of(package: str) -> list[str]:
    """The folders into which the distributions of a package are installed."""
    return [str(distribution(name).locate_file("")) for name in _find_distributions(package)]


@cache
def _list_distributions_by_package() -> dict[str, list[str]]:
    return dict(packages_distributions())


@cache
def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:32]
