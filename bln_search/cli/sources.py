"""Where the verbs about studies read: the database here, or a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from urllib.parse import urlsplit

import typer

from bln_search.core.enums import Split
from bln_search.core.errors import MissingPackageError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import ENDED, StudyState, TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.settings import Settings, load_settings
from bln_search.specs.space import point_label
from bln_search.specs.study import StudySpec
from bln_search.storage.analyses import find_analysis
from bln_search.storage.board import study_leaderboard
from bln_search.storage.evaluations import written_point
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.migration import present_revision
from bln_search.storage.queries import StudySummary, TrialSummary
from bln_search.storage.queries import trials as trials_in

if TYPE_CHECKING:
    from bln_search.client import Client

DatabaseOption = Annotated[str | None, typer.Option("--database", help="Database URL. [env: BLN_SEARCH_DATABASE]")]
ServerOption = Annotated[
    str | None, typer.Option("--server", help="Service to ask instead of the database here. [env: BLN_SEARCH_SERVER]")
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", help="Access token of that service. [env: BLN_SEARCH_TOKEN]", show_default=False),
]
StudyArgument = Annotated[str, typer.Argument(help="Name or number of a study.", show_default=False)]
HERE = "http://127.0.0.1:8000"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Source(Protocol):
    """What can be read of studies."""

    def lines(self) -> list[dict[str, object]]:
        """Every study in a few words, newest first."""

    def find(self, name_or_id: str) -> StudySummary:
        """The study of that number, or the newest of that name."""

    def trials(self, study_id: int) -> list[TrialSummary]:
        """Its trials."""

    def board(self, study: StudySummary, arm: str | None, on: Split | None) -> Leaderboard:
        """Its ranked table, or an arm's rows of it: ranks are those of the whole table."""

    def analysis(self, study: StudySummary, *, anyway: bool = False) -> Analysis | None:
        """What its results say, None where that is not worked out. anyway: of a study that is not complete, too."""

    def schema(self) -> str | None:
        """The revision of the database's tables; None where it is not at hand."""


@contextmanager
def open_source(database: str | None, server: str | None, token: str | None) -> Iterator[Source]:
    """The service where one is named, else the database."""
    settings = load_settings()
    service = named_service(database, server, settings)
    if service is not None:
        with open_client(service, token, settings) as client:
            yield ServiceSource(client)
        return
    with closing(open_ledger(database or settings.database_url)) as ledger:
        yield LedgerSource(ledger)


def named_service(database: str | None, server: str | None, settings: Settings) -> str | None:
    """The service to ask: the one given, or that of the settings where no database is given; None: the database.

    Raises typer.BadParameter where both are given.
    """
    if server is not None and database is not None:
        raise typer.BadParameter("give either a database or a service", param_hint="--database, --server")
    return server or (settings.server if database is None else None)


def open_client(server: str | None, token: str | None, settings: Settings) -> Client:
    """A client with the token given, the one of the environment, or the one that `serve` left in the home."""
    try:
        from bln_search.client import Client
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, "client") from None
    given = token or (settings.token.get_secret_value() if settings.token else None)
    address = server or settings.server or HERE
    if given is None and settings.token_file.is_file() and urlsplit(address).hostname in _LOOPBACK:
        given = settings.token_file.read_text(encoding="utf-8").strip()  # it stays on this machine
    return Client(address, given)


class LedgerSource:
    """The database here."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def lines(self) -> list[dict[str, object]]:
        """Every study in a few words, newest first."""
        return [study_line(study) for study in self.ledger.studies()]

    def find(self, name_or_id: str) -> StudySummary:
        """The study of that number, or the newest of that name."""
        return self.ledger.find_study(name_or_id)

    def trials(self, study_id: int) -> list[TrialSummary]:
        """Its trials."""
        return trials_in(self.ledger.engine, study_id)

    def board(self, study: StudySummary, arm: str | None, on: Split | None) -> Leaderboard:
        """Its ranked table."""
        whole = study_leaderboard(self.ledger.engine, study.id, study.spec, on=on)
        return whole if arm is None else replace(whole, rows=tuple(row for row in whole.rows if row.arm == arm))

    def analysis(self, study: StudySummary, *, anyway: bool = False) -> Analysis | None:
        """What its results say; worked out now where nobody has."""
        if study.state is not StudyState.COMPLETE and not anyway:
            return None
        kept = find_analysis(self.ledger.engine, study.id)
        if kept is not None:
            return kept.analysis
        try:
            from bln_search.worker.analysis import analyze
        except ModuleNotFoundError as error:
            if anyway:
                raise MissingPackageError(error.name, "train") from None
            return None
        return analyze(self.ledger, study.id, None, keep=False)

    def schema(self) -> str | None:
        """The revision of the database's tables."""
        return present_revision(self.ledger.engine)


class ServiceSource:
    """A service."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def lines(self) -> list[dict[str, object]]:
        """Every study in a few words, newest first."""
        return [_line(one) for one in self.client.studies()]

    def find(self, name_or_id: str) -> StudySummary:
        """The study of that number, or the newest of that name."""
        return _summary(self.client.study(name_or_id))

    def trials(self, study_id: int) -> list[TrialSummary]:
        """Its trials."""
        return [_trial(one) for one in self.client.trials(study_id)]

    def board(self, study: StudySummary, arm: str | None, on: Split | None) -> Leaderboard:
        """Its ranked table."""
        return self.client.leaderboard(study.id, arm=arm, on=None if on is None else on.value)

    def analysis(self, study: StudySummary, *, anyway: bool = False) -> Analysis | None:  # noqa: ARG002
        """What its results say, once a worker has worked it out."""
        return self.client.analysis(study.id)

    def schema(self) -> str | None:
        """A service does not say."""
        return None


def study_line(study: StudySummary) -> dict[str, object]:
    """A study in a few words."""
    return {
        "id": study.id,
        "name": study.name,
        "state": study.state.value,
        "trials": study.planned,
        "finished": sum(study.trials.get(state, 0) for state in ENDED),
        "failed": study.trials.get(TrialState.FAILED, 0),
        "created": study.created_at.isoformat(timespec="seconds"),
    }


def _line(study: dict[str, Any]) -> dict[str, object]:
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


def _summary(study: dict[str, Any]) -> StudySummary:
    progress = study["progress"]
    return StudySummary(
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


def _trial(trial: dict[str, Any]) -> TrialSummary:
    kept = trial["checkpoint"]
    names = ("file", "sha256", "epoch", "judged_under", "validation_loss", "provenance")
    return TrialSummary(
        id=trial["id"],
        arm=trial["arm"],
        method=trial["method"],
        seed=trial["seed"],
        parameters=point_label(trial["parameters"] or {}),
        state=TrialState(trial["state"]),
        reason=trial["reason"],
        checkpoint=None if kept is None else CheckpointRecord(**{name: kept[name] for name in names}),
        point=written_point(trial["parameters"]),
    )
