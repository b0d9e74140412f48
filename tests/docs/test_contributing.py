"""The picture of the architecture is that of the import contract."""

from __future__ import annotations

import re
import tomllib

from tests.conftest import ROOT
from tests.docs.pages import TEXTS, blocks

(PICTURE,) = (block.text for block in blocks(TEXTS["contributing.md"], "text") if block.text.startswith("__main__"))
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


def test_the_layers_are_those_of_the_contract():
    (contract,) = (contract for contract in CONTRACTS if contract["type"] == "layers")
    layers = [line for line in PICTURE.splitlines() if line and not line.startswith("service")]
    assert [re.split(r" {2,}", line)[0].strip() for line in layers] == contract["layers"]


def test_the_packages_of_the_service_are_those_that_it_imports():
    (line,) = (line for line in PICTURE.splitlines() if line.startswith("service"))
    imported = {
        package
        for file in (ROOT / "service").rglob("*.py")
        for package in re.findall(r"^\s*from bln_search\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert set(re.split(r"\W+", line.partition("->")[2].strip())) == imported
