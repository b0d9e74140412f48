"""SHA-256 sums of the files of a release, and its images: `python -m tests.release.artefacts dist`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bln_search.core.version import VERSION

ROOT = Path(__file__).parents[2]
TARGETS = ("web", "worker")


def describe_files(folder: Path) -> list[str]:
    """One line for each file: SHA-256 and path, as `sha256sum --check` reads them."""
    return [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}" for file in sorted(folder.iterdir())]


def build_images() -> list[str]:
    """Build the images, if a Docker engine answers; one line for each."""
    if shutil.which("docker") is None or not _succeeds("docker", "info", quiet=True):
        return ["images were not built: no Docker engine answers"]
    return [_build_image(target) for target in TARGETS]


def main(folder: Path) -> int:
    """Print files and images, and return the exit status."""
    images = build_images()
    print(*describe_files(folder), *images, sep="\n")
    return int(any(line.startswith("FAILED") for line in images))


def _build_image(target: str) -> str:
    name = f"bln-search-{target}:{VERSION}"
    command = ("docker", "build", "--target", target, "--tag", name, "--build-arg", f"VERSION={VERSION}", ".")
    return f"image {name}" if _succeeds(*command) else f"FAILED: image {name}"


def _succeeds(*command: str, quiet: bool = False) -> bool:
    return subprocess.run(command, cwd=ROOT, capture_output=quiet, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
