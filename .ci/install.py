"""Install packages into an environment: `.venv/bin/python .ci/install.py --editable '.[search]'`. `make` calls it.

uv installs the packages, because it downloads and unpacks them in parallel. It comes from the PATH or from the package
index. If it is missing there or fails, pip installs. Both use the versions of `constraints.txt`, and the indexes, the
folders and the certificates that pip is configured with.

On Linux without an NVIDIA driver, torch comes from PyTorch's index of CPU builds, which are a fraction of the size.
This does not happen if pip is configured with an index or a folder. TORCH_INDEX names another index; if it is empty,
torch comes from the same index as everything else.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DRIVER = Path("/proc/driver/nvidia/version")
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
_CONSTRAINED = ("--quiet", "--constraint", "constraints.txt")


def main(words: list[str]) -> int:
    """Install what the words name, and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--python", default=sys.executable, help="of the environment; by default the one that runs this"
    )
    parser.add_argument("--editable", action="store_true", help="the packages are folders, and stay there")
    parser.add_argument("packages", nargs="+", help="with their extras, such as '.[search]'")
    given = parser.parse_args(words)
    packages = [word for package in given.packages for word in (*["--editable"] * given.editable, package)]
    settings = parse_settings(_run(*_PIP, "config", "list").stdout)
    torch_index = find_torch_index(settings)
    uv = _find_uv(may_install=given.python == sys.executable)
    if uv and _install_with_uv(uv, given.python, packages, settings, torch_index):
        return 0
    command = (*_PIP, "--python", given.python, "install", "--no-compile", *_CONSTRAINED)
    if torch_index:
        _run(*command, "--no-deps", "--retries", "0", "--index-url", torch_index, "torch")
    return subprocess.run([*command, *packages], cwd=ROOT, check=False).returncode


def parse_settings(text: str) -> dict[str, str]:
    """Settings of pip by name, from what `pip config list` prints; variables take precedence over files."""
    lines = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.+)$", text, re.MULTILINE)
    lines.sort(key=lambda line: ("global", "install", ":env:").index(line[0]))
    return {name: str(ast.literal_eval(value)) for _, name, value in lines}


def uv_arguments(settings: dict[str, str]) -> list[str]:
    """Options of uv that do what these settings of pip do."""
    arguments = ["--no-index"] if settings.get("no-index", "") in ("1", "true", "yes", "on") else []
    if "index-url" in settings:
        arguments += ["--default-index", settings["index-url"]]
    if "extra-index-url" in settings:  # pip takes the best version of all indexes
        arguments += ["--index-strategy", "unsafe-best-match"]
    for setting, option in (
        ("extra-index-url", "--index"),
        ("find-links", "--find-links"),
        ("trusted-host", "--allow-insecure-host"),
    ):
        for value in settings.get(setting, "").split():
            arguments += [option, value]
    return arguments


def find_torch_index(settings: dict[str, str]) -> str:
    """The index for torch alone; empty if torch comes from the same index as everything else."""
    if "TORCH_INDEX" in os.environ:
        return os.environ["TORCH_INDEX"]
    has_own_index = {"index-url", "extra-index-url", "find-links", "no-index"} & settings.keys()
    has_driver = DRIVER.exists() or shutil.which("nvidia-smi") is not None
    return "" if has_own_index or has_driver or sys.platform != "linux" else CPU_INDEX


def last_line(text: str) -> str:
    """The last line with text."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")


def _install_with_uv(uv: str, python: str, packages: list[str], settings: dict[str, str], torch_index: str) -> bool:
    """Whether uv installed the packages; if not, print why."""
    command = (uv, "pip", "install", "--python", python, *_CONSTRAINED)
    environment = {"SSL_CERT_FILE": settings["cert"]} if "cert" in settings else {}
    if torch_index:
        _run(*command, "--no-deps", "--default-index", torch_index, "torch", **environment)
    done = _run(*command, *uv_arguments(settings), *packages, **environment)
    if done.returncode:
        print(f"uv failed, pip installs: {last_line(done.stderr)}", file=sys.stderr)
    return done.returncode == 0


def _find_uv(*, may_install: bool) -> str | None:
    """The path of uv, which pip may install beside this Python if it is not on the PATH; None if there is none."""
    own = Path(sys.executable).parent / "uv"
    if may_install and not own.exists() and shutil.which("uv") is None:
        _run(*_PIP, "install", *_CONSTRAINED, "--only-binary", ":all:", "uv")
    return str(own) if own.exists() else shutil.which("uv")


def _run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
