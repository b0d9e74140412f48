"""Python objects by reference: `file.py:name` or `package.module:name`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bln_search.core.errors import BlnSearchError, DataError


def is_python_reference(reference: str) -> bool:
    """Whether a reference names a Python object."""
    module, separator, name = reference.rpartition(":")
    is_dotted = all(part.isidentifier() for part in module.split("."))
    return bool(separator) and name.isidentifier() and (module.endswith(".py") or is_dotted)


def call_reference(reference: str, option: str) -> Any:
    """Import a function and return what it returns without arguments; an object that is no function as it is.

    Raises:
        DataError: The module cannot be imported, the name is not in it, or the function raises an error.
    """
    path, _, name = reference.rpartition(":")
    module = _import_file(Path(path), option) if path.endswith(".py") else _import_module(path, option)
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise DataError(f"{option}: {path} has no {name!r}; it has {', '.join(public[:10]) or 'nothing'}")
    value = getattr(module, name)
    if isinstance(value, type) or not callable(value) or hasattr(value, "state_dict"):
        return value
    if _needs_arguments(value):
        raise DataError(f"{option}: {reference} needs arguments: name a function without any")
    return _run(value, f"{option}: {reference}()")


def _needs_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters
    )


def _import_file(path: Path, option: str) -> ModuleType:
    if not path.is_file():
        raise DataError(f"{option}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # the file may import its neighbours
    sys.modules.setdefault(path.stem, module)
    loader = spec.loader
    _run(lambda: loader.exec_module(module), f"{option}: {path}")
    return module


def _import_module(name: str, option: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the present folder
    module: ModuleType = _run(lambda: importlib.import_module(name), f"{option}: import {name}")
    return module


def _run(function: Callable[[], Any], what: str) -> Any:
    """The result of a function of the user. Raises DataError that names the line where it failed."""
    try:
        return function()
    except BlnSearchError:
        raise
    except Exception as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        place = ""
        if traceback is not None:
            place = f" ({Path(traceback.tb_frame.f_code.co_filename).name}, line {traceback.tb_lineno})"
        raise DataError(f"{what} raised {type(error).__name__}: {str(error).partition(chr(10))[0]}{place}") from error
