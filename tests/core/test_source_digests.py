"""Digests of modules: which files belong to them, and what is a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.tiers import thinned

FILES = {
    "own_net.py": "import own_common.layers\nfrom own_tools import WIDTH\n\nclass Net:\n    pass\n",
    "own_common/__init__.py": "",
    "own_common/layers.py": "from . import shapes\n\ndef make():\n    from own_late import late\n    return late()\n",
    "own_common/shapes.py": "SHAPE = 3\n",
    "own_common/unused.py": "UNUSED = 1\n",
    "own_tools.py": "import json\nimport numpy\nWIDTH = 8\n",
    "own_late.py": "late = int\n",
    "other.py": "import own_net\n",
}
OWN = {"own_net.py", "own_common/__init__.py", "own_common/layers.py", "own_common/shapes.py", "own_tools.py"}
PRINT = """
import json, sys
from bln_search.core.source_digests import digest_own_modules
digests = digest_own_modules(frozenset(sys.argv[1:]))
unexpected = [name for name in sys.modules if name.startswith("own_")]
print(json.dumps([dict(digests), unexpected]))
"""


def write(folder, files=FILES):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


def digests(folder, *modules):
    """The digests of modules in a new process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "PYTHONSAFEPATH": "1"}
    call = [sys.executable, "-c", PRINT, *(modules or ("own_net",))]
    printed = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout
    values, imported = json.loads(printed)
    assert imported == []
    return values


def test_modules_that_a_file_imports_belong_to_it(tmp_path):
    assert set(digests(write(tmp_path))) == OWN | {"own_late.py"}


def test_modules_without_a_file_are_missing(tmp_path):
    assert set(digests(write(tmp_path), "own_late", "sys", "nowhere", "own_common.nowhere")) == {
        "own_late.py",
        "own_common/__init__.py",
    }


@pytest.mark.parametrize("changed", thinned(sorted(OWN | {"own_late.py"}), 8))
def test_a_changed_file_changes_its_digest_only(tmp_path, changed):
    before = digests(write(tmp_path))
    write(tmp_path, {changed: FILES[changed] + "CHANGED = 1\n"})
    after = digests(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {changed}


@pytest.mark.parametrize("how", thinned(["time", "folder", "line endings", "file that nothing imports"], 4))
def test_unchanged_code_keeps_its_digests(tmp_path, how):
    first = write(tmp_path / "first")
    before = digests(first)
    if how == "time":
        for name in FILES:
            os.utime(first / name, (1, 1))
    elif how == "folder":
        first = first.rename(tmp_path / "second")
    elif how == "line endings":
        write(first, {name: text.replace("\n", "\r\n") for name, text in FILES.items()})
    else:
        write(first, {"own_common/unused.py": "UNUSED = 2\n", "other.py": "import own_net.nothing\n"})
    assert digests(first) == before


def test_packages_of_others_do_not_belong_to_a_plugin(tmp_path):
    """The folder is one into which packages are installed."""
    folder = write(tmp_path / "site-packages", {**FILES, "another.py": "", "own_net.py": "import another, own_net2\n"})
    write(folder, {"own_net2.py": ""})
    for name, modules in (("own", ["own_net.py", "own_net2.py"]), ("another", ["another.py"])):
        facts = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"}
        facts["RECORD"] = "".join(f"{module},,\n" for module in modules)
        write(folder / f"{name}-1.dist-info", facts)
    assert set(digests(folder)) == {"own_net.py", "own_net2.py"}
