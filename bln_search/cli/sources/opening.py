"""Opens the database or the service that options and settings name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bln_search.cli.sources.ledger import LedgerSource
from bln_search.cli.sources.studies import StudyFilter, StudySource
from bln_search.core.credentials import clean_token
from bln_search.core.errors import AmbiguousStudyError, MissingDatabaseError, SpecError, UnknownStudyError
from bln_search.core.names import repeated_study_name_message
from bln_search.core.urls import is_loopback_host, parse_service_address, redact_password
from bln_search.settings import Settings, find_missing_sqlite_file, load_settings
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger

if TYPE_CHECKING:
    from bln_search.client import Client

DEFAULT_SERVER = "http://127.0.0.1:8000"


@contextmanager
def open_study_source(database: str | None, server: str | None, token: str | None) -> Iterator[StudySource]:
    """Open the service if options or settings name one, otherwise the database."""
    with open_ledger_or_client(database, server, token) as opened:
        yield _make_study_source(opened)


def _make_study_source(opened: Ledger | Client) -> StudySource:
    if isinstance(opened, Ledger):
        return LedgerSource(opened)
    from bln_search.cli.sources.service import ServiceSource

    return ServiceSource(opened)


def get_study_to_change(opened: Ledger | Client, name_or_id: str) -> StudyRecord:
    """Return the study with this number, or the only one of its owner with this name.

    Commands that change or export a study use it; those that show one take the newest of a name.

    Raises:
        AmbiguousStudyError: The owner has several studies of this name.
    """
    source = _make_study_source(opened)
    study = source.get_study(name_or_id)
    if name_or_id == study.name and name_or_id != str(study.id):  # otherwise it is the number
        listed = source.list_studies(StudyFilter(name=study.name))
        same = [other for other in listed if (other["name"], other["owner"]) == (study.name, study.owner)]
        if len(same) > 1:
            raise AmbiguousStudyError(repeated_study_name_message(study.name, same))
    return study


@contextmanager
def open_ledger_or_client(database: str | None, server: str | None, token: str | None) -> Iterator[Ledger | Client]:
    """Open a client of the service if options or settings name one, otherwise the database."""
    settings = load_settings()
    service = find_service_address(database, server, settings)
    if service is not None:
        with open_service_client(service, token, settings) as client:
            yield client
        return
    with closing(open_and_upgrade_ledger(find_existing_database(database, settings))) as ledger:
        yield ledger


def find_existing_database(database: str | None, settings: Settings) -> str:
    """Return the URL of a database that exists, for a command that only reads or changes what is there.

    Args:
        database: URL given on the command line; by default that of the settings.
        settings: The settings.

    Raises:
        MissingDatabaseError: There is none.
    """
    url = settings.checked_database_url(database)
    file = find_missing_sqlite_file(url)
    if file is not None:
        raise MissingDatabaseError(
            f"there is no database at {file}: `bln-search run` or `serve` creates it; if yours is elsewhere, set "
            "BLN_SEARCH_HOME or BLN_SEARCH_DATABASE, or give --database"
        )
    return url


@contextmanager
def open_database_ignoring_service(database: str | None, settings: Settings) -> Iterator[Ledger]:
    """Open the database, for a command that no service can answer.

    Args:
        database: URL given on the command line; by default that of the settings.
        settings: If they name a service, the error of an unknown study says that it is not used.
    """
    with closing(open_and_upgrade_ledger(find_existing_database(database, settings))) as ledger:
        try:
            yield ledger
        except UnknownStudyError as error:
            if database is not None or settings.server is None:
                raise
            raise UnknownStudyError(
                f"{error.problem}: this command uses the database, not the service {redact_password(settings.server)} "
                "of BLN_SEARCH_SERVER; run it on the machine of the database"
            ) from None


def find_service_address(database: str | None, server: str | None, settings: Settings) -> str | None:
    """Return the address of the service; None for the database.

    Args:
        database: URL given on the command line.
        server: Address given on the command line.
        settings: Its server is used if neither is given.

    Raises:
        BadParameter: Both are given.
    """
    if server is not None and database is not None:
        raise typer.BadParameter("use either a database or a service", param_hint="--database, --server")
    return server or (settings.server if database is None else None)


def open_service_client(server: str | None, token: str | None, settings: Settings) -> Client:
    """Return a client of a service.

    Args:
        server: Address; by default that of the settings, or of a service on this machine.
        token: Access token; by default that of the settings, or the one that `serve` stored in the home folder.
        settings: The settings.
    """
    from bln_search.client import Client

    secret = token or (settings.token.get_secret_value() if settings.token else None)
    address = server or settings.server or DEFAULT_SERVER
    if secret is None and _is_on_this_machine(address):  # a token file is never sent to another machine
        secret = _read_token_file(settings.token_file)
    return Client(address, secret)


def _is_on_this_machine(address: str) -> bool:
    try:
        return is_loopback_host(parse_service_address(address).hostname or "")
    except ValueError:
        return False  # the client reports it


def _read_token_file(file: Path) -> str | None:
    """Return the token that `serve` stored; None without a file. Raises SpecError if it cannot be used."""
    try:
        return clean_token(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpecError(str(file), [f"the access token cannot be read: {error.strerror}"]) from None
    except ValueError as error:
        reason = "is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SpecError(str(file), [f"the access token {reason}"]) from None
