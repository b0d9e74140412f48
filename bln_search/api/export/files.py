"""The files of an export: their names, their description, and the folder that is replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from torch import Tensor

from bln_search.api.export.description import (
    ExportDescription,
    OwnNetworkDescription,
    StudyNetworkDescription,
    list_format_descriptions,
)
from bln_search.core.errors import DataError
from bln_search.core.files import atomic_folder as folders
from bln_search.core.files.atomic import compute_file_sha256

WEIGHTS_FILE, CONFIGURATION_FILE = "model.safetensors", "configuration.json"
TORCH_PROGRAM, ONNX_PROGRAM = "model.pt2", "model.onnx"
STREAM_FILE = "stream.safetensors"
PARITY_FILE, CARD_FILE = "parity.json", "README.md"
PLAIN_FILE = "plain.safetensors"
FORM_FILES = frozenset({WEIGHTS_FILE, PLAIN_FILE, TORCH_PROGRAM, ONNX_PROGRAM, STREAM_FILE})
"""Files that configuration.json may name."""


def check_export_target_replaceable(folder: Path, *, overwrite: bool) -> None:
    """Raise ExportError unless an export may be written to `folder`: it is absent, empty, or an export to replace."""
    folders.check_export_folder_replaceable(folder, overwrite=overwrite, is_export=_is_export_folder)


def open_atomic_export_folder(folder: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """Yield a temporary folder that becomes `folder` when the block ends without an error.

    Raises:
        StorageFullError: The disk is full.
        ExportError: The folder cannot be written.
    """
    return folders.atomic_folder(folder, partial(check_export_target_replaceable, folder, overwrite=overwrite))


def _is_export_folder(folder: Path) -> bool:
    try:
        read_export_description(folder)
    except DataError:
        return False
    return True


def read_export_description(folder: Path) -> StudyNetworkDescription | OwnNetworkDescription:
    """Read configuration.json. Raises DataError if it is missing, damaged, or of another format."""
    path = folder / CONFIGURATION_FILE
    try:
        content: Any = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"{folder} is not an export of bln-search: {CONFIGURATION_FILE} cannot be read ({reason})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged, it is not JSON: {error}; export the network again") from None
    number = content.get("format") if isinstance(content, dict) else None
    if number is None:
        raise DataError(f"{folder} is not an export of bln-search: {CONFIGURATION_FILE} has no format")
    descriptions = list_format_descriptions()
    if not isinstance(number, int) or number not in descriptions:
        raise DataError(
            f"{path} is of format {number!r}, this version of bln-search reads "
            f"{', '.join(map(str, descriptions))}: install the version that wrote it, or export the network again"
        )
    try:
        return descriptions[number].model_validate_json(json.dumps(content))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise DataError(f"{path} is damaged: {where}: {problem['msg']}; export the network again") from None


def read_exported_weights(folder: Path, files: Mapping[str, str]) -> dict[str, Tensor]:
    """Read the weights. files: SHA-256 of each file. Raises DataError if they are missing or damaged."""
    check_file_sha256(folder / WEIGHTS_FILE, files)
    try:
        return read_safetensors((folder / WEIGHTS_FILE).read_bytes())
    except SafetensorError as error:
        raise DataError(f"{folder / WEIGHTS_FILE} is not a safetensors file: {error}") from None


def read_exported_stream(folder: Path, description: ExportDescription) -> tuple[Tensor, ...]:
    """Read the values at which the stream of an export begins. Raises DataError if they are missing or damaged."""
    check_file_sha256(folder / STREAM_FILE, description.files)
    try:
        values = read_safetensors((folder / STREAM_FILE).read_bytes())
        return tuple(values[name] for name in description.stream)
    except (SafetensorError, KeyError) as error:
        raise DataError(f"{folder / STREAM_FILE} is not the stream of {CONFIGURATION_FILE}: {error}") from None


def check_file_sha256(path: Path, files: Mapping[str, str]) -> None:
    """Raise DataError unless the file has the SHA-256 that `files` states for its name."""
    try:
        actual_sha256 = compute_file_sha256(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    sha256 = files.get(path.name)
    if actual_sha256 != sha256:
        raise DataError(
            f"{path} is damaged: its SHA-256 is {actual_sha256}, {CONFIGURATION_FILE} says {sha256 or 'none'}; export "
            "the network again"
        )
