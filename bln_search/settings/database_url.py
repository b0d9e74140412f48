"""The database URL of the settings: its password, and the file of an SQLite database."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from bln_search.core.errors import SpecError
from bln_search.settings.secret_file import read_secret_file


def insert_password(url: str, file: Path) -> str:
    """Put the password of the file into the URL, unless the URL has a password or no user.

    The byte order mark and the line breaks around the password are removed. Spaces are kept: the image of Postgres
    reads the same file and keeps them.

    Raises:
        SpecError: The file cannot be used.
    """
    parsed = _parse_url(url)
    if parsed is None or parsed.username is None or parsed.password is not None:
        return url
    password = read_secret_file("BLN_SEARCH_DATABASE_PASSWORD_FILE", file, "password")
    return parsed.set(password=password).render_as_string(hide_password=False)


def find_sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for another database, or one in memory."""
    parsed = _parse_url(url)
    if parsed is None or parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database)).expanduser()


def find_missing_sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database if it does not exist: opening the database would create it."""
    file = find_sqlite_file(url)
    if file is None or str(file).startswith("file:"):
        return None
    try:
        return None if file.exists() else file
    except OSError:  # such as a folder of another user; opening the database reports it
        return None


def check_sqlite_folder(url: str, home: Path) -> None:
    """Raise SpecError if the folder of an SQLite database does not exist; the home folder may be created later."""
    file = find_missing_sqlite_file(url)
    folder = home if file is None else file.absolute().parent
    if folder != home and not folder.is_dir():
        advice = "create it, or correct --database or BLN_SEARCH_DATABASE"
        raise SpecError(f"the database {file}", [f"there is no folder {folder}; {advice}"])


def _parse_url(url: str) -> URL | None:
    """Return the parts of a database URL; None for another text: opening the database reports it."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        return None
