"""The content of a file that holds the state of a training run.

Three lines of text, then the tensors in the format safetensors: the version of this format, the SHA-256 of everything
after it, and a JSON object of the fingerprint (on what the state depends) and of the numbers of the state. The content
needs no pickle, so a file of a shared store can run no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from bln_search.core.errors import DataError
from bln_search.training.training_state import TrainingState

_FORMAT = b"bln-search training state 1"

Fingerprint = Mapping[str, str | int]
"""Trial, software and hardware: a state restored under another fingerprint would not continue bit for bit."""


def encode_training_state(state: TrainingState, fingerprint: Fingerprint) -> bytes:
    """Return the content of the file of a state."""
    tensors = {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in state.tensors.items()
    }
    head = json.dumps({"fingerprint": dict(fingerprint), "numbers": state.numbers}, sort_keys=True).encode()
    content = head + b"\n" + save(tensors)
    return b"\n".join([_FORMAT, hashlib.sha256(content).hexdigest().encode(), content])


def decode_training_state(content: bytes, fingerprint: Fingerprint) -> TrainingState:
    """Return the state of a file.

    Args:
        content: of the file.
        fingerprint: the state must have been saved under it.

    Raises:
        DataError: the content is damaged, of another version, or was saved under another fingerprint.
    """
    form, _, rest = content.partition(b"\n")
    if form != _FORMAT:
        raise DataError("it is not a training state of this version")
    sha256, _, rest = rest.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != sha256:
        raise DataError("it is damaged: its SHA-256 is not the recorded one")
    head, _, tensors = rest.partition(b"\n")
    try:
        stored = json.loads(head)
        differing = _list_differences(stored["fingerprint"], fingerprint)
        if differing:
            raise DataError(f"it was saved under other conditions: {'; '.join(differing)}")
        return TrainingState(load(tensors), stored["numbers"])
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DataError(f"it cannot be decoded: {type(error).__name__}: {error}") from None


def _list_differences(stored: Fingerprint, present: Fingerprint) -> list[str]:
    names = sorted({*stored, *present})
    return [
        f"{name} {stored.get(name)} then, {present.get(name)} now"
        for name in names
        if stored.get(name) != present.get(name)
    ]
