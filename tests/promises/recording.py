"""Recordings as files with a line for each entry, and their comparison with the present program."""

from __future__ import annotations

import json
import math
import platform
import re
from importlib.metadata import version
from pathlib import Path

import torch

FOLDER = Path(__file__).parent / "recorded"
EXACT = 1e-12
"""Relative tolerance on the processor of the recording: trials compute with one thread, in one order of additions."""
ROUNDED = 1e-3
"""Relative tolerance on another processor, whose vector instructions add in another order.

The largest difference between AVX-512, AVX2 and no vector instructions was 1e-6 (torch 2.13, oneDNN and Numba limited
through their environment variables): a few epochs of training amplify the rounding of float32.
"""
_FLOAT = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")
_LIBRARIES = ("torch", "numpy", "scikit-learn", "optuna", "numba")


def describe_processor():
    """What decides the last digits of a result: instructions of the processor, and versions of the libraries."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.is_file() else ""
    facts = dict(re.findall(r"^(model name|cpu family|model|flags)\s*: (.*)$", text.partition("\n\n")[0], re.MULTILINE))
    vectors = [flag for flag in facts.pop("flags", "").split() if re.match("avx|fma|amx|f16c|sse4", flag)]
    processor = [platform.machine(), platform.processor(), *facts.values(), *sorted(vectors)]
    return {
        "processor": " ".join(filter(None, processor)),
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "libraries": " ".join(f"{name} {version(name)}" for name in _LIBRARIES),
    }


def write(name, entries, *, computed=False):
    """Write a recording. computed: it has results, whose last digits depend on the processor."""
    about = {"computed on": describe_processor()} if computed else {}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in {**about, **entries}.items()]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(name):
    """The entries of a recording, and the processor on which they were computed; None if nothing was computed."""
    path = FOLDER / f"{name}.json"
    entries = json.loads(path.read_text()) if path.is_file() else {}
    return entries, entries.pop("computed on", None)


def find_differences(name, present, *, other_processor=ROUNDED):
    """A line for each entry of the present program that differs from the recording, or that only one of both has.

    Args:
        name: of the recording.
        present: Entries of the present program.
        other_processor: Relative tolerance if the recording was computed on another processor.
    """
    recorded, computed_on = read(name)
    tolerance = EXACT if computed_on in (None, describe_processor()) else other_processor
    present = json.loads(json.dumps(present))
    return [
        f"{name}: {key}: {describe_difference(recorded.get(key, 'nothing'), present.get(key, 'nothing'))}"
        for key in {**recorded, **present}
        if key not in recorded or key not in present or not are_close(recorded[key], present[key], tolerance)
    ]


def describe_difference(recorded, present):
    """Both values; of two lists of names those that only one of them has."""
    if all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in (recorded, present)):
        gone, new = (sorted(set(a) - set(b)) for a, b in ((recorded, present), (present, recorded)))
        return f"gone {gone}, new {new}" if gone or new else "another order"
    return f"recorded {recorded}, now {present}"


def are_close(recorded, present, tolerance):
    """Whether two values are equal, but for floating-point numbers that may differ by the relative tolerance."""
    texts = [json.dumps(value, sort_keys=True) for value in (recorded, present)]
    numbers = [map(float, _FLOAT.findall(text)) for text in texts]
    return _FLOAT.sub("#", texts[0]) == _FLOAT.sub("#", texts[1]) and all(
        math.isclose(one, other, rel_tol=tolerance) for one, other in zip(*numbers, strict=True)
    )
