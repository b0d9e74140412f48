"""Encodes named arrays as bytes, and decodes them."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DamagedRecordError

Arrays = Mapping[str, NDArray[Any]]


def encode_arrays(arrays: Arrays) -> bytes:
    """Named arrays in the format of np.savez_compressed."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def decode_arrays(packed: bytes) -> Arrays:
    """Decode named arrays. Raises DamagedRecordError if the bytes are damaged."""
    try:
        with np.load(io.BytesIO(packed), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedRecordError(f"stored arrays are damaged: {error}") from None
