"""The script of the charts: fetched with a fixed digest, compressed, and in the packages."""

from __future__ import annotations

import gzip
import importlib.util
import io
import tarfile
import urllib.error
from pathlib import Path

import pytest

from tests.conftest import ROOT

SPECIFICATION = importlib.util.spec_from_file_location("plotly_bundle", ROOT / ".ci" / "plotly_bundle.py")
bundle = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(bundle)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    return tmp_path


def test_package_with_another_digest_is_refused():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo(bundle.MEMBER)
        member.size = 9
        archive.addfile(member, io.BytesIO(b"/** other"))
    with pytest.raises(SystemExit, match="not the published one"):
        bundle.read_script(content.getvalue())


def test_script_is_stored_compressed_once_and_older_ones_are_removed(folder, monkeypatch):
    (folder / "plotly-cartesian-0.0.1.min.js.gz").touch()
    monkeypatch.setattr(bundle, "fetch", lambda _: b"package")
    monkeypatch.setattr(bundle, "read_script", lambda _: b"/** script")
    assert bundle.main() == 0
    stored = {file.name: file.read_bytes() for file in folder.iterdir()}
    prefix = f"plotly-basic-{bundle.VERSION}.min.js"
    assert set(stored) == {f"{prefix}.gz", f"{prefix}.br"}
    assert gzip.decompress(stored[f"{prefix}.gz"]) == b"/** script"
    monkeypatch.setattr(bundle, "fetch", lambda _: pytest.fail("it is there"))
    assert bundle.main() == 0


def test_registry_that_does_not_answer_is_no_error(folder, monkeypatch, capsys):
    def refuse(_):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(bundle, "fetch", refuse)
    assert bundle.main() == 0
    assert "complete plotly.js" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_compression_is_reproducible_and_smaller_than_gzip_makes_it(monkeypatch):
    script = Path(bundle.__file__).read_bytes() * 20
    compressed = bundle.compress(script, "gz")
    assert compressed == bundle.compress(script, "gz")
    assert gzip.decompress(compressed) == script
    assert len(compressed) < len(gzip.compress(script, 9, mtime=0))
    monkeypatch.setattr(bundle, "find_spec", lambda _: None)  # without zopfli gzip compresses
    assert gzip.decompress(bundle.compress(script, "gz")) == script
