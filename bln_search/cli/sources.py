"""Sources of studies for the commands: the local database, or a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import typer

from bln_search.core.enums import Split
from bln_search.core.errors import MissingPackageError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import ENDED, StudyState, TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.settings import Settings, load_settings
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    from bln_search.client import Client

DEFAULT_SERVER = "http://127.0.0.1:8000"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class StudySource(Protocol):
    """Read access to studies."""

    def list_studies(self) -> list[dict[str, object]]:
        """Return the fields of every study, newest first."""

    def find(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or the newest with this name."""

    def trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study."""

    def leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard.

        Args:
            study: The study.
            arm: Return only the rows of this arm, with their ranks among all rows.
            on: Split that ranks; by default the study's.
        """

    def analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis; None if there is none yet.

        Args:
            study: The study.
            allow_incomplete: Analyze a study that is not complete.
        """

    def schema_revision(self) -> str | None:
        """Return the revision of the database schema; None if it is unknown."""


@contextmanager
def open_source(database: str | None, server: str | None, token: str | None) -> Iterator[StudySource]:
    """Open the service if options or settings name one, otherwise the database."""
    settings = load_settings()
    service = service_address(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            yield ServiceSource(client)
        return
    with closing(open_ledger(database or settings.database_url)) as ledger:
        yield LedgerSource(ledger)


def service_address(database: str | None, server: str | None, settings: Settings) -> str | None:
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


def open_client(server: str | None, token: str | None, settings: Settings) -> Client:
    """Return a client of a service.

    Args:
        server: Address; by default that of the settings, or of a service on this machine.
        token: Access token; by default that of the settings, or the one that `serve` stored in the home folder.
        settings: The settings.
    """
    try:
        from bln_search.client import Client
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "client") from None
    secret = token or (settings.token.get_secret_value() if settings.token else None)
    address = server or settings.server or DEFAULT_SERVER
    if secret is None and settings.token_file.is_file() and urlsplit(address).hostname in _LOOPBACK:
        secret = settings.token_file.read_text(encoding="utf-8").strip()  # never sent to another machine
    return Client(address, secret)


class LedgerSource:
    """Studies of the local database."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def list_studies(self) -> list[dict[str, object]]:
        """Return the fields of every study, newest first."""
        return [study_fields(study) for study in self.ledger.studies.list_studies()]

    def find(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or the newest with this name."""
        return self.ledger.studies.find(name_or_id)

    def trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study."""
        return self.ledger.trials.list_trials(study_id)

    def leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard."""
        board = self.ledger.results.rank_study(study.id, study.spec, on=on)
        return board if arm is None else replace(board, rows=tuple(row for row in board.rows if row.arm == arm))

    def analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:
        """Return the analysis; compute it if it is not stored."""
        if study.state is not StudyState.COMPLETE and not allow_incomplete:
            return None
        stored = self.ledger.analyses.find(study.id)
        if stored is not None:
            return stored.analysis
        try:
            from bln_search.worker.analysis import compute_analysis
        except ModuleNotFoundError as error:
            if allow_incomplete:
                raise MissingPackageError(error.name, "train") from None
            return None
        return compute_analysis(self.ledger, study.id, None, save=False)

    def schema_revision(self) -> str | None:
        """Return the revision of the database schema."""
        return self.ledger.find_schema_revision()


class ServiceSource:
    """Studies of a service."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def list_studies(self) -> list[dict[str, object]]:
        """Return the fields of every study, newest first."""
        return [_study_fields_of_json(study) for study in self.client.studies()]

    def find(self, name_or_id: str) -> StudyRecord:
        """Return the study with this number, or the newest with this name."""
        return _study_of_json(self.client.study(name_or_id))

    def trials(self, study_id: int) -> list[TrialRecord]:
        """Return the trials of a study."""
        return [_trial_of_json(trial) for trial in self.client.trials(study_id)]

    def leaderboard(self, study: StudyRecord, arm: str | None, on: Split | None) -> Leaderboard:
        """Return the leaderboard."""
        return self.client.leaderboard(study.id, arm=arm, on=None if on is None else on.value)

    def analysis(self, study: StudyRecord, *, allow_incomplete: bool = False) -> Analysis | None:  # noqa: ARG002
        """Return the analysis once a worker has computed it."""
        return self.client.analysis(study.id)

    def schema_revision(self) -> str | None:
        """Return None: the API does not return it."""
        return None


def study_fields(study: StudyRecord) -> dict[str, object]:
    """Return the fields of a study for a list."""
    return {
        "id": study.id,
        "name": study.name,
        "state": study.state.value,
        "trials": study.planned,
        "finished": sum(study.trials.get(state, 0) for state in ENDED),
        "failed": study.trials.get(TrialState.FAILED, 0),
        "created": study.created_at.isoformat(timespec="seconds"),
    }


def _study_fields_of_json(study: dict[str, Any]) -> dict[str, object]:
    progress = study["progress"]
    return {
        "id": study["id"],
        "name": study["name"],
        "state": study["state"],
        "trials": progress["trials"],
        "finished": progress["ended"],
        "failed": progress["failed"],
        "created": datetime.fromisoformat(study["created_at"]).isoformat(timespec="seconds"),
    }


def _study_of_json(study: dict[str, Any]) -> StudyRecord:
    progress = study["progress"]
    return StudyRecord(
        id=study["id"],
        name=study["name"],
        state=StudyState(study["state"]),
        created_at=datetime.fromisoformat(study["created_at"]),
        ended_at=None if study["ended_at"] is None else datetime.fromisoformat(study["ended_at"]),
        trials={TrialState.FINISHED: progress["ended"], TrialState.FAILED: progress["failed"]},
        spec=StudySpec.model_validate(study["spec"]),
        planned=progress["trials"],
        reason=study["reason"],
    )


def _trial_of_json(trial: dict[str, Any]) -> TrialRecord:
    checkpoint = trial["checkpoint"]
    names = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance")
    return TrialRecord(
        id=trial["id"],
        position=trial["position"],
        arm=trial["arm"],
        method=trial["method"],
        seed=trial["seed"],
        parameters=trial["parameters"],
        state=TrialState(trial["state"]),
        reason=trial["reason"],
        checkpoint=None if checkpoint is None else CheckpointRecord(**{name: checkpoint[name] for name in names}),
    )
