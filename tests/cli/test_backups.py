"""`bln-search backup` and `restore`: whatever is wrong with a place is one clear line."""

from __future__ import annotations

import pytest

from tests.end_to_end.commands import call


@pytest.mark.parametrize("verb", ["backup", "restore"])
def test_a_place_that_cannot_be_one_is_one_clear_error(verb, home, tmp_path):
    call("db", "upgrade", check=0)
    file = tmp_path / "file"
    file.write_text("not a folder")
    done = call(verb, file / "backups", check=1)
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert [one for one in home.iterdir() if one.name.startswith(".")] == []


def test_a_database_that_is_not_there_is_one_clear_error(tmp_path):
    done = call("backup", tmp_path / "backups", check=1)
    assert len(done.stderr.strip().splitlines()) == 1
    assert "holds no tables of bln-search" in done.stderr
    assert not (tmp_path / "backups").exists()


def test_an_empty_database_is_backed_up_and_put_back(home, tmp_path):
    call("db", "upgrade", check=0)
    assert "0 studies, 0 checkpoints" in call("backup", tmp_path / "backups", "--keep", 1, check=0).stdout
    assert "every file is what it was" in call("restore", tmp_path / "backups", "--dry-run", check=0).stdout
    assert "restored; 0 studies wait" in call("restore", tmp_path / "backups", check=0).stdout
