"""Print what an image installs, one requirement a line: `python .ci/image_requirements.py web s3`.

The requirements of bln-search and of the extras of the image, from pyproject.toml. Further extras may follow the name.
The image `web` has no torch; a machine that only serves can do the same.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXTRAS = {"web": ("service", "postgres"), "worker": ("search", "export", "postgres")}
NOT_SERVED = ("safetensors", "scipy", "torch")
"""Packages that the service never loads, see the contracts of import-linter."""


def list_requirements(image: str, *more_extras: str) -> list[str]:
    """Return the requirements of an image, with those of further extras."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    required: list[str] = list(project["dependencies"])
    if image == "web":
        required = [requirement for requirement in required if not requirement.startswith(NOT_SERVED)]
    for extra in (*EXTRAS[image], *more_extras):
        required += list_requirements_of_extra(project["optional-dependencies"], extra)
    return required


def list_requirements_of_extra(lists: dict[str, list[str]], extra: str) -> list[str]:
    """Return the requirements of an extra; `all` contains others, as bln-search[export,fast]."""
    required = []
    for requirement in lists[extra]:
        inner = re.fullmatch(r"bln-search\[(.+)\]", requirement)
        others = [] if inner is None else inner[1].split(",")
        required += (
            [requirement]
            if inner is None
            else [one for other in others for one in list_requirements_of_extra(lists, other)]
        )
    return required


if __name__ == "__main__":
    print(*list_requirements(*sys.argv[1:]), sep="\n")
