"""Fetch the part of plotly.js that the charts of the pages use: `python .ci/plotly_bundle.py`. `make` calls it.

The package `plotly` from PyPI contains the complete script, three times as large. The package
`plotly.js-basic-dist-min` from npm contains scatter and bar charts. Version and SHA-512 are fixed here. The
script is stored compressed in `service/static`, which wheel and source distribution contain. If nothing answers, the
service delivers the complete script instead, so this is no error.

NPM_CONFIG_REGISTRY names another registry.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import io
import os
import sys
import tarfile
import urllib.request
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

VERSION = "4.1.1"
INTEGRITY = "sha512-1oNF8PeQx2hv/y7tqEVWKD3JGwn/MGEMQ8mL9HUwsaqG9FGy/OU5FHUHvzqbqxN4mnwZGI9abTiE775C4kkjMQ=="
"""As the npm registry names it for this version."""

PACKAGE = "plotly.js-basic-dist-min"
MEMBER = "package/plotly-basic.min.js"
FOLDER = Path(__file__).resolve().parents[1] / "service" / "static"
_DEFAULT_REGISTRY = "https://registry.npmjs.org"
_TIMEOUT = 60.0


def main() -> int:
    """Store the compressed script unless it is there, and return the exit status."""
    suffixes = ("gz",) if find_spec("brotli") is None else ("gz", "br")
    files = {suffix: FOLDER / f"plotly-basic-{VERSION}.min.js.{suffix}" for suffix in suffixes}
    missing = {suffix: file for suffix, file in files.items() if not file.exists()}
    if not missing:
        return 0
    try:
        script = read_script(fetch(os.environ.get("NPM_CONFIG_REGISTRY", _DEFAULT_REGISTRY)))
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        print(f"the charts of the pages use the complete plotly.js: {PACKAGE} was not fetched ({error})")
        return 0
    for old in FOLDER.glob("plotly-*"):
        old.unlink()
    for suffix, file in files.items():
        file.write_bytes(compress(script, suffix))
    return 0


def fetch(registry: str) -> bytes:
    """Return the package of the fixed version. Raises URLError if the registry does not answer."""
    address = f"{registry.rstrip('/')}/{PACKAGE}/-/{PACKAGE}-{VERSION}.tgz"
    with urllib.request.urlopen(address, timeout=_TIMEOUT) as response:
        return bytes(response.read())


def read_script(package: bytes) -> bytes:
    """Return the script of a package. Raises SystemExit if it is not the package that was published."""
    digest = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()
    if digest != INTEGRITY:
        raise SystemExit(
            f"error: {PACKAGE} {VERSION} has the digest {digest}, not {INTEGRITY}: it is not the published one"
        )
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None, "the published package has it"
        return member.read()


def compress(script: bytes, suffix: str) -> bytes:
    """Return the script in the format of gzip, by Zopfli if it is installed, or by Brotli for the suffix `br`."""
    if suffix == "gz":
        if find_spec("zopfli") is None:
            return gzip.compress(script, 9, mtime=0)
        return bytes(import_module("zopfli.gzip").compress(script, blocksplittingmax=0))  # as many blocks as help
    return bytes(import_module("brotli").compress(script, quality=11, lgwin=24))


if __name__ == "__main__":
    sys.exit(main())
